"""Java artifacts that aren't in Python packages: which ones, with their checksums, and how they get into the cache."""
