"""User functions in Python workers: called, bounded in time, isolated where they end their process, results checked."""
