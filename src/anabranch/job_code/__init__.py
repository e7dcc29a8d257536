"""The code of a job, as one packed file with a hash, or as modules that this process and Python workers can import."""
