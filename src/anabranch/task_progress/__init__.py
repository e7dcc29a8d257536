"""The progress of Spark tasks: what Python workers count, and how they report it to the driver."""
