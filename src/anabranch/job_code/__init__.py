"""The code of a job: packed as one file with a hash, and its modules, which can be imported here and in Python
workers."""
