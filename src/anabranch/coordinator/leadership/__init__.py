"""Decides which of several coordinators on one store leads, drives the one that leads, and manages the notes and locks
of processes that serve jobs.
"""
