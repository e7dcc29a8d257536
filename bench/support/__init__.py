"""What the benchmarks against other programs share."""
