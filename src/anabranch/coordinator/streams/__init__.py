"""What is looked up in the streams of jobs: partition counts, offsets, dead letters and early output. No job is locked
meanwhile."""
