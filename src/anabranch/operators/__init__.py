"""The meaning of each operator, independent of Spark: where it runs, what it does to the key, and which state it
has."""

from anabranch.operators.rules import RULES, Rule, rule

__all__ = ["RULES", "Rule", "rule"]
