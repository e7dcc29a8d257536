"""Jars that aren't in Python packages: which ones are needed, with their checksums, and how they get into the cache."""
