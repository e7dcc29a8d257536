"""Lists, with checksums, the jars that anabranch uses and no Python package contains, and fetches them into the
cache.
"""
