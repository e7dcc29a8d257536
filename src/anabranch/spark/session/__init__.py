"""A container's Spark session, and its requirements for a cluster."""
