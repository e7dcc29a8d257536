"""Determines which records of an SSP and which state belong to a lane, and where the lane begins to read."""
