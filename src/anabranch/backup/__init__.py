"""Makes a complete copy of a job, even while it runs, and restores the job from the copy elsewhere."""
