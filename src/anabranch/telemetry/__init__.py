"""Traces and metrics through OpenTelemetry, and lineage through OpenLineage, if their environment variables ask for
them. Otherwise these libraries aren't imported."""
