"""The jars that aren't in Python packages: a list with checksums, and the code that fetches them into the cache."""
