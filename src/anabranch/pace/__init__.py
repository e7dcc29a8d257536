"""The number of records in a batch, which is chosen such that the batch takes about the time that it should."""
