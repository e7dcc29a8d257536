"""The step from the lanes of a generation to those of the next: some are closed, and others continue from them."""
