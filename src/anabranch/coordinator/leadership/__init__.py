"""Elects a leader among the coordinators that share a store, and has the leader serve the jobs. Also manages the locks
that keep two processes from serving one job, and the notes that tell other processes where a job is served.
"""
