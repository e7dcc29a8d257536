"""Most of the interface of job files: jobs, streams, and processors with state and timers. Importing this package
doesn't import Spark.
"""
