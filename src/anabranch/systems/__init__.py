"""Systems, where streams live: their contract, the embedded log and Kafka."""
