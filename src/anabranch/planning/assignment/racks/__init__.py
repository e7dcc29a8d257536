"""Assigns tasks and standbys to containers. As in Kafka's KIP-925, the containers are balanced, and there is little
traffic across racks.
"""
