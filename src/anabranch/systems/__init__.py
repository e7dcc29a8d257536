"""Where streams live: the contract of a system, the embedded log and Kafka."""
