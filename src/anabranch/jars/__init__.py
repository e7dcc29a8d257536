"""Fetches jars that anabranch needs, but that no Python package contains, into the cache. Lists these jars with their
checksums.
"""
