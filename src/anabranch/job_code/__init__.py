"""The code of a job, in two forms: packed as one file with a hash, and as modules that this process and Python workers
can import."""
