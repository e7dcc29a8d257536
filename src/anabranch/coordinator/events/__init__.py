"""What a job's events say: their kinds, the changes of the job, and when its lanes ran. Pure."""
