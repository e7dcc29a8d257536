"""A container: a process with one Spark session that runs its assigned lanes and reports their progress."""
