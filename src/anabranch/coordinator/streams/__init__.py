"""Looks things up in the streams of jobs: partition counts, offsets, dead letters and early output. This can take a
long time, so the caller must not hold the lock of any job.
"""
