"""The tour of ``anabranch demo``: a running job is changed, killed, frozen and drained, and its results are checked."""
