"""A container's Spark session, and what it needs from a cluster."""
