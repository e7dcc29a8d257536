"""Assignment: the container seat of each task."""
