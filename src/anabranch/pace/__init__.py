"""Chooses the number of records in a batch so that a batch takes about as long as configured. Uses neither a clock nor
Spark.
"""
