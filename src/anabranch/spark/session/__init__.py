"""A container's Spark session, and what it needs of a cluster."""
