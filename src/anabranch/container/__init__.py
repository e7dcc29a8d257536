"""A container: one Spark application that runs the lanes it is told to, and says how far they are."""
