"""Expresses each operator by calls on Spark's DataFrames."""
