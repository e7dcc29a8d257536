"""The documents from which the dashboard and the command line learn about jobs. Each covers one aspect of a job, and is
small enough to be requested repeatedly.
"""
