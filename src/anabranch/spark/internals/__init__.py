"""Spark's private surface: everything that PySpark's public interface doesn't offer, one module for each use.

Nothing else in anabranch touches it, which ``scripts/check`` enforces. Each module has a ``SURFACE``, which says what
it needs, which features depend on it, and what happens without it, and a ``probe``. :mod:`probes` lists all of them:
they are checked when a session starts, tried by ``anabranch doctor``, and taken away one by one in tests.
"""
