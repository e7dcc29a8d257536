"""A lane's streaming query: from its sources to the publishing of its batches."""
