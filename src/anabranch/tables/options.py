"""Checks the settings of outputs to tables."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from anabranch.config import wrong_values
from anabranch.config.headings import heading
from anabranch.config.storage import is_uri
from anabranch.errors import ConfigError

__all__ = ["FolderOptions", "Options", "checked"]


class Options(BaseModel):
    """The settings that a kind of table accepts. All others are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FolderOptions(Options):
    """The settings of a table in a folder.

    Attributes:
        NOT_LOCAL: the message for a path that is a URI.
        path: a folder on a disk that all containers and the coordinator share.
        target_file_mb: the approximate size, in MB, at which a new file is started.
    """

    NOT_LOCAL: ClassVar[str]

    path: str
    target_file_mb: int = Field(default=128, ge=1, le=4096)

    @field_validator("path")
    @classmethod
    def _local(cls, path: str) -> str:
        if is_uri(path):
            raise ValueError(cls.NOT_LOCAL)
        return path


Kind = TypeVar("Kind", bound=Options)


def checked(kind: type[Kind], name: str, given: Mapping[str, Any]) -> Kind:
    """The settings ``given`` for the output ``name``, as an object of the class ``kind``. Raises ConfigError, which
    names the first wrong setting."""
    try:
        return kind(**given)
    except ValidationError as error:
        first = error.errors()[0]
        setting = ".".join(str(part) for part in first["loc"])
        where = f"outputs.{name}.{setting}" if setting else f"outputs.{name}"
        if first["type"] == "extra_forbidden":
            near = difflib.get_close_matches(setting, kind.model_fields, n=1)
            cure = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(kind.model_fields)}"
            raise ConfigError(f"unknown setting {where!r}", cure) from None
        if first["type"] == "missing":
            raise ConfigError(f"{where} isn't set", f"set {heading('outputs', name)} {setting}") from None
        raise ConfigError(wrong_values.explanation(where, first), "set an allowed value") from None
