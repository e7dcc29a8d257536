"""How the values of streams are encoded, as far as this is determined before Spark reads a record."""

from anabranch.formats.format import JSON, Format

__all__ = ["JSON", "Format"]
