"""What can be derived from a job's events: the job's changes, and when its lanes ran. These are pure functions."""
