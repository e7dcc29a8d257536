"""Requests and responses between users, containers and the coordinator, in one process or over HTTP."""
