"""The coordinator's HTTP interface: a table of operations; server, client and OpenAPI description are made from it."""
