"""What the dashboard's pages and the command line read about jobs. Each answer is one aspect of a job, small enough to
be requested repeatedly.
"""
