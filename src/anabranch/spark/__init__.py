"""Operators as DataFrame calls, and the rest of a lane's query."""
