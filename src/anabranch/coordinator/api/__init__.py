"""The coordinator's HTTP interface: a table of operations, from which server, client and OpenAPI description are made."""
