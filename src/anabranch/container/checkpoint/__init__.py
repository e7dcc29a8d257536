"""Lanes' checkpoint folders: how a lane gets one, who owns it, whether the lane can continue from it, and its
repair."""
