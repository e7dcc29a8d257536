"""User functions in Python workers: calls them, limits their time, isolates those that end their process, and checks
their results.
"""
