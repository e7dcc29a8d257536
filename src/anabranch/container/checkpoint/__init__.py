"""Lanes' checkpoint folders: how a lane gets its folder, which process owns the folder, whether the lane can continue
from it, and how it is repaired."""
