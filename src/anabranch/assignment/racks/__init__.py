"""Assignment with racks: tasks to containers at the least traffic across racks, proven (KIP-925)."""
