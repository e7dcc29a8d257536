"""Operators as DataFrame calls, and what surrounds them in a lane's query."""
