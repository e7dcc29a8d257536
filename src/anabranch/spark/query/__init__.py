"""A lane's streaming query, from its sources to the publication of its batches."""
