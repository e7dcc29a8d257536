"""Uses the private surface of Spark: the parts that anabranch uses although they aren't public.

No other code of anabranch uses the private surface; ``scripts/check`` enforces this. The ``SURFACE`` of a module
describes the parts that the module needs, the features that depend on them, and what happens if a part is missing. Its
``probe`` finds out whether a session's Spark has the parts. :mod:`probes` lists all surfaces. They are checked when a
session starts, tried by ``anabranch doctor``, and taken away one by one in tests.
"""
