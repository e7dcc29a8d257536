"""Lists, with checksums, the jars that aren't in Python packages, and fetches them into the cache."""
