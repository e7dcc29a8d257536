"""Assignment: which container seat each task runs in."""
