"""The step from the lanes of a generation to those of the next one: some lanes are closed, and new ones continue from
them."""
