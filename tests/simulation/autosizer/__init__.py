"""A job with a load, and the autosizer that chooses its factor, second by second: no Spark, no clock."""
