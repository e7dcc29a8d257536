"""The tour of ``anabranch demo``: a running job is changed and drained, its containers are killed and frozen, and its
results are checked."""
