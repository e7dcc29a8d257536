"""Each operator as DataFrame calls."""
