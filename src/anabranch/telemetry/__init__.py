"""Exports traces and metrics through OpenTelemetry, and lineage through OpenLineage, if environment variables ask for
it. Otherwise, these libraries aren't imported."""
