"""The coordinator's HTTP interface: a table of operations, and the server, the client and the OpenAPI description that
are derived from the table.
"""
