"""A container: one Spark application that runs its assigned lanes, and reports their progress."""
