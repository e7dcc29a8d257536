"""``anabranch demo``: a job that is changed, killed, frozen and drained while it runs, and the results."""
