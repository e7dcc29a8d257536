"""Runs the functions and processors of jobs in Python workers: limits the time for each message, finds messages that
kill a worker, checks the results, and receives the workers' reports.
"""
