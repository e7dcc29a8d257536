"""Assignment: which container seat each task gets."""
