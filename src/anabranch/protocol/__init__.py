"""Requests and responses between users, containers and the coordinator, within one process or over HTTP."""
