"""Works on a job that no process serves: replaces the folders of the job's lanes, or resets the job."""
