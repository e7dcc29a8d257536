"""What a user imports: jobs and their streams, processors with state and timers. These imports don't import Spark."""
