"""The jars that anabranch may need and that no Python package contains: a list with checksums, and code that fetches
them into the cache.
"""
