"""Assigns tasks and standbys to containers: balanced, and with little traffic across racks, as in Kafka's KIP-925. A
lower bound on the cost shows how good an assignment is."""
