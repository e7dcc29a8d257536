"""Chooses the number of records in a batch so that a batch takes about as long as configured. Estimates how long
batches take, and what it costs to break them off. Uses neither a clock nor Spark.
"""
