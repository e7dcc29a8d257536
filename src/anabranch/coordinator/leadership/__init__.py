"""Elects one of the coordinators that share a store, has the elected coordinator serve jobs, and manages the notes and
locks of processes that serve jobs.
"""
