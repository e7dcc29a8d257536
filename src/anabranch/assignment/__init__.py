"""Assignment: which seat each task gets."""
