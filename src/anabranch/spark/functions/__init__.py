"""Runs user functions in Python workers: calls them, limits their time, isolates messages that kill a process, and
checks the functions' results.
"""
