"""Assigns tasks to containers so that there is the least traffic across racks, with a lower bound on the cost as proof
(KIP-925)."""
