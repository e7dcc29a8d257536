"""The sections ``[streams.NAME]``."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import field_validator, model_validator

from anabranch.config.section import Section

__all__ = ["OF_FORMATS", "StreamSettings"]

OF_FORMATS = {"schema_file": ("avro", "protobuf", "confluent"), "message": ("protobuf",), "subject": ("confluent",)}
"""The settings that only streams in certain formats can have, each with its formats."""


class StreamSettings(Section):
    """The settings of one of the job's streams, such as its system and the format of its values."""

    system: str | None = None
    """The system in which the stream lives. Default: ``[systems] default``; for an intermediate stream or a dead-letter
    stream, the system from which its records come.
    """

    topic: str | None = None
    """The stream's name in its system. Default: the name in the job."""

    pattern: str | None = None
    """A regular expression. The input consists of all streams of the system whose whole names match, including streams
    that are created later, but excluding streams that the job writes, or reads by name."""

    format: Literal["json", "string", "raw", "avro", "protobuf", "confluent"] = "json"

    schema_file: Path | None = None
    """The file with the schema: for ``avro`` and ``confluent``, an Avro schema; for ``protobuf``, a descriptor set."""

    message: str | None = None
    """The name of the message in the descriptor set."""

    subject: str | None = None
    """The subject in the schema registry. Default: the topic with ``-value`` appended."""

    delivery: Literal["exactly-once", "at-least-once"] = "exactly-once"
    """What the output promises."""

    task_header: bool = False
    """Whether the output's records have a header with the name of the task that wrote them."""

    on_data_loss: Literal["fail", "earliest"] = "fail"
    """What a lane does if an input's records were deleted before the lane had read them, or if an output has lost
    records."""

    @field_validator("pattern")
    @classmethod
    def _regular(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                re.compile(text)
            except re.error as error:
                raise ValueError(f"{text!r} isn't a regular expression: {error}") from None
        return text

    @model_validator(mode="after")
    def _one_or_many(self) -> StreamSettings:
        odd = next((name for name in ("topic", "delivery", "task_header") if name in self.model_fields_set), None)
        if self.pattern is not None and odd is not None:
            raise ValueError(f"{odd} is for one stream, but pattern = {self.pattern!r} can match several")
        if self.pattern is not None and self.format == "confluent" and self.subject is None:
            raise ValueError(
                f"it isn't clear which subject the streams of pattern = {self.pattern!r} have: set subject"
            )
        return self
