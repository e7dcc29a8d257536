"""The code of a job: packed as one file with a hash, and its modules, importable here and in Python workers."""
