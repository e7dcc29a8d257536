"""The properties of each operator, independent of Spark."""

from anabranch.operators.rules import RULES, Rule, rule

__all__ = ["RULES", "Rule", "rule"]
