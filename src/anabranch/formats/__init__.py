"""How the values of streams are encoded: everything that is decided before Spark sees a record."""

from anabranch.formats.format import JSON, Format

__all__ = ["JSON", "Format"]
