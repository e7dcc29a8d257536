"""The properties of each operator, independent of Spark: whether it runs in the JVM or in Python, whether it has state,
and what it does to the stage key and to the event-time column."""

from anabranch.operators.rules import RULES, Rule, rule

__all__ = ["RULES", "Rule", "rule"]
