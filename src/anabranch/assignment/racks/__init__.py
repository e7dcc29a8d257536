"""Assignment with racks: assigns tasks to containers with the least traffic across racks, with a proof of optimality
(KIP-925)."""
