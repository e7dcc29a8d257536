"""Looks up partition counts, offsets, dead letters and early output in the streams of jobs. This can take a long time,
so the caller must not hold the lock of any job.
"""
