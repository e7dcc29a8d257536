"""A container's Spark session, on the container's machine or on a cluster."""
