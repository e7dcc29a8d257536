"""How far Spark tasks are with their work: what Python workers count, and the lines in which they tell the driver."""
