"""Spark's private surface: what no public interface of PySpark gives, one module each."""
