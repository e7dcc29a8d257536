"""The documents from which the dashboard's pages and the command line learn about jobs. Each document covers one aspect
of a job, and is small enough to be requested repeatedly.
"""
