"""What a coordinator can be asked over HTTP: one table, and the server, the client and the description derived from
it.
"""
