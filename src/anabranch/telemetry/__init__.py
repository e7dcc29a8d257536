"""Traces and metrics through OpenTelemetry, as its environment variables say. OpenTelemetry isn't imported unless they
ask for it."""
