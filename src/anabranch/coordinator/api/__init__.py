"""The coordinator's HTTP interface: a table of operations, and the server, client and OpenAPI description that are
derived from it.
"""
