"""Lanes' checkpoint folders: how a lane gets one, which process owns it, whether the lane can continue from it, and how
it is edited, copied and repaired."""
