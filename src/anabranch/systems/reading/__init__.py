"""Spark's source of a system that brings none of its own."""
