"""User functions in Python workers: calling them, limiting their time, isolating those that end their process, checking
their results.
"""
