"""How many records a batch may have, so that it takes about as long as it should."""
