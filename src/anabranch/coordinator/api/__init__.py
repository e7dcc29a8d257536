"""The coordinator's HTTP interface. The server, the client and the OpenAPI description are made from one table of
operations."""
