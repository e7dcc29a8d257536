"""The Spark source for systems that don't have their own."""
