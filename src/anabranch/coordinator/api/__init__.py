"""The coordinator's HTTP interface: one table of operations, and the server, the client and the description derived
from it.
"""
