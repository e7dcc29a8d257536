"""What follows from a job's events: their kinds, the job's changes, and when its lanes ran. These are pure
functions.
"""
