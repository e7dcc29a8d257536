"""Traces and metrics by OpenTelemetry, as its environment variables say. Nothing of it is imported unless they ask."""
