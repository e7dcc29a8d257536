"""Backups: a complete copy of a job, made while it runs, and restored elsewhere."""
