"""Assignment with racks: tasks to containers with the least traffic across racks, proven optimal (KIP-925)."""
