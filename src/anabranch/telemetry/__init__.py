"""Exports traces and metrics through OpenTelemetry, and lineage through OpenLineage, if the environment variables of
these libraries ask for the export. Otherwise the libraries aren't imported."""
