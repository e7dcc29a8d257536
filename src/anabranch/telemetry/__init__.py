"""Exports traces and metrics through OpenTelemetry, and lineage through OpenLineage, if the libraries' environment
variables ask for it. Otherwise the libraries aren't imported."""
