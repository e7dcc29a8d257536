"""Describes how the values of one stream are encoded."""

from __future__ import annotations

from anabranch.model.document import Document

__all__ = ["JSON", "Format"]


class Format(Document, frozen=True, kw_only=True):
    """The format of a stream's values.

    Attributes:
        name: json, string, raw, avro, protobuf or confluent.
        schema: for avro and confluent, the Avro schema (as JSON) with which values are read and written; for protobuf,
            a descriptor set (in base64) that contains ``message``.
        message: for protobuf, the name of the message.
        writers: for confluent, the schemas with which values may have been written, by their ids in the registry.
        id: for confluent, the id of ``schema`` in the registry. The id is -1 if the schema isn't registered. It is also
            -1 if the schema comes from a schema file and the job only reads the stream.
    """

    name: str = "json"
    schema: str = ""
    message: str = ""
    id: int = -1
    writers: dict[str, str] = {}


JSON = Format()
"""The format of intermediate streams, and of streams for which the settings name no format."""
