"""The Kafka system: topics as streams, through confluent-kafka. Spark's part is in ``spark.py``."""
