"""The progress of Spark tasks: what Python workers count, and the lines in which they report it to the driver."""
