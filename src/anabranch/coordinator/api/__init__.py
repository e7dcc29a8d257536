"""The coordinator's HTTP interface: a table of operations, and the server, client and OpenAPI description made from it.
"""
