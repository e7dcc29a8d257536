"""Lanes' checkpoint folders: how a lane gets its folder, which process owns the folder, whether the lane can continue
from the folder, and how a damaged folder is repaired."""
