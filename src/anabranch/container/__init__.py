"""A container: a process that runs the lanes assigned to it in one Spark session, and reports their progress."""
