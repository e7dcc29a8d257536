"""Runs user functions in Python workers: limits their time, isolates them if a message kills the process, and checks
their results.
"""
