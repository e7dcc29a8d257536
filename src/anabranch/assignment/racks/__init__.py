"""Assigns tasks and standbys to containers: balanced, and with little traffic across racks, as in Kafka's KIP-925."""
