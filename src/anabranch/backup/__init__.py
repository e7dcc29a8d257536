"""Copies a job's rows in the store, its lanes' folders and, if their system supports this, its streams, even while the
job runs. Restores the job to another place from such a copy."""
