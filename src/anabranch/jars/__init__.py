"""Lists the jars, with checksums, that anabranch sometimes needs and that no Python package contains, and fetches them
into the cache.
"""
