"""The Kafka system: topics as streams, through confluent-kafka. The part for Spark is in ``spark.py``."""
