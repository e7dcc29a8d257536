"""Copies a job's rows in the store and the folders of the job's lanes, even while the job runs. If the system of a
stream supports backups, the stream is copied, too. Restores the job to another place from such a copy."""
