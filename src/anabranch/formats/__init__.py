"""How the values of streams are written: what is settled before Spark sees a record."""

from anabranch.formats.format import JSON, Format

__all__ = ["JSON", "Format"]
