"""Most of the code that builds on Spark: sessions, lanes' queries, operators, user functions in Python workers, the
conversion of records' values to columns and back, and Spark's private surface."""
