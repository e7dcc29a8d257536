"""Most of the code that builds on Spark, including the code that uses Spark's private surface."""
