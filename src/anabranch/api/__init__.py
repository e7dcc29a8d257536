"""What a user imports: jobs and their streams, processors with state and timers. Spark isn't imported with them."""
