"""Reports the progress of Spark tasks: Python workers count rows and seconds, and send the counts to the driver."""
