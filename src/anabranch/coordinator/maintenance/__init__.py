"""Work on a job that no process serves: its folders are replaced, or the job is reset."""
