"""Looks up partition counts, racks, offsets, dead letters and early output of jobs' streams. The caller must not hold
the lock of any job, because such a lookup can take a long time.
"""
