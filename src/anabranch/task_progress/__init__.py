"""Reports the progress of Spark tasks: Python workers count rows and seconds, and report them to the driver."""
