"""Whether a lane can continue from its checkpoint folder, and how a damaged one is repaired."""
