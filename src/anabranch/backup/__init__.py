"""Copies a job's rows in the store, the folders of its lanes, and those of its streams whose system supports backups,
even while the job runs. Restores the job from the copy elsewhere."""
