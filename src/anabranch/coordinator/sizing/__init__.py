"""The autosizer: pure functions that determine from the load of a job's lanes which factor the job needs."""
