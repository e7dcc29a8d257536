"""Assigns tasks to containers in racks with the least traffic across racks, and proves that no assignment costs less
(KIP-925)."""
