"""The formats of streams, which are determined from settings, schema files and a registry before Spark reads a record."""

from anabranch.formats.format import JSON, Format

__all__ = ["JSON", "Format"]
