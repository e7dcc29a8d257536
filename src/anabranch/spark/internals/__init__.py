"""The uses of Spark's private surface, that is, of what PySpark's public interface doesn't offer: one module for each.

No other code of anabranch uses the private surface; ``scripts/check`` enforces this. Each module has a ``SURFACE``,
which says what the module needs, which features depend on it, and what happens without it, and a ``probe``.
:mod:`probes` lists all surfaces: they are checked when a session starts, tried by ``anabranch doctor``, and taken away
one by one in tests.
"""
