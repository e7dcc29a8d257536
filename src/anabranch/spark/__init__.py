"""Operators as DataFrame calls, and the other parts of a lane's query."""
