"""The Spark source for systems that don't bring their own."""
