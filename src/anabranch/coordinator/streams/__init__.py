"""Looks up partition counts, offsets, dead letters and early output in jobs' streams. The caller must not hold the lock
of any job, because this can take a long time.
"""
