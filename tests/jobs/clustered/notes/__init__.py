"""A package of the job."""
