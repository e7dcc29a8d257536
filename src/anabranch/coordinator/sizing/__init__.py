"""The autosizer: determines from the load of a job's lanes which factor the job needs. These are pure functions."""
