"""A job as one backup: made while it runs, and restored elsewhere."""
