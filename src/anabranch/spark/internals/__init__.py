"""Spark's private surface: what no public interface of PySpark gives, one module each.

Nothing else of anabranch touches it; ``scripts/check`` sees to that. Each module has a ``SURFACE``, which says what it
needs, which features depend on it, and what is done instead, and a ``probe``. All of them are listed in :mod:`probes`:
they are looked for when a session starts, tried out by ``anabranch doctor``, and taken away one by one in tests.
"""
