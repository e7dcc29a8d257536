"""How the values of one stream are written, as a job keeps it from its first start on."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["JSON", "Format"]


class Format(Document, frozen=True, kw_only=True):
    """``name``: json, string, raw, avro, protobuf or confluent.

    ``schema``: of avro and confluent, the Avro schema by which values are read and written, as JSON; of protobuf, a
    descriptor set in base64, in which ``message`` is one. ``writers``: of confluent, the schemas that values may have
    been written with, by their id in the registry; ``id``: the one that the job writes with.
    """

    name: str = "json"
    schema: str = ""
    message: str = ""
    id: int = -1
    writers: dict[str, str] = {}


JSON = Format()
"""Of streams that settings say nothing of, and of those between two stages."""
