"""What can be derived from a job's events: its changes, and when its lanes ran. Pure functions."""
