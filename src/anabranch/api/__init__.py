"""What a user imports: jobs and their streams, processors with state and timers. Nothing here needs Spark."""
