"""Uses the private surface of Spark: the parts that anabranch uses although they aren't public.

No other code of anabranch uses the private surface; ``scripts/check`` enforces this. Each module's ``SURFACE``
describes the parts that the module needs, the features that depend on these parts, and what happens if a part is
missing. The module's ``probe`` finds out whether a session's Spark has the parts. :mod:`probes` lists the surfaces of
all modules. All surfaces are checked when a session starts, and tried by ``anabranch doctor``. Tests check what happens
when any one of them is missing.
"""
