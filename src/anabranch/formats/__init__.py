"""How the values of streams are encoded, as far as it is decided before Spark sees a record."""

from anabranch.formats.format import JSON, Format

__all__ = ["JSON", "Format"]
