"""The code of a job, packed as one file with a hash, or as modules that this process and Python workers can import."""
