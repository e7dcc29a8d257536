"""Plans the step from one generation to the next: some lanes are closed, and new lanes continue from them."""
