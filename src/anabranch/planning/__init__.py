"""Plans a job's stages, tasks and lanes, its changes, and what follows a drain or a reset. The functions work on plain
data: they access neither the store nor streams.
"""
