"""Java artifacts that aren't in Python packages: which ones, by their sums, and how they get into the cache."""
