"""Assigns a seat to each task."""
