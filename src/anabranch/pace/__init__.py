"""Chooses the number of records in a batch so that batches take about the time that they should."""
