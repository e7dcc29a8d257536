"""Explains mistakes in settings. The messages name a setting with its section, as in ``job.factor``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from anabranch.config import wrong_values
from anabranch.config.autoscale import AutoscaleSettings
from anabranch.config.headings import heading
from anabranch.config.secrets import without_passwords
from anabranch.config.settings import Settings
from anabranch.config.streams import StreamSettings

__all__ = ["explained", "nearest"]


def explained(error: ValidationError, path: Path | None) -> tuple[str, str]:
    """What is wrong with the first invalid setting, and what the user can do about it. ``path`` is the configuration
    file, if there is one.
    """
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    where = f"{path}: " if path is not None else ""
    setting = ".".join(location)
    if first["type"] == "extra_forbidden":
        return f"{where}unknown setting {setting!r}", nearest(location[-1], _known_names(location[:-1]))
    if first["type"] == "missing":
        return f"{where}setting {setting!r} isn't set", f"set {_section(location[:-1])} {location[-1]}"
    why = without_passwords(first["msg"].removeprefix("Value error, "))
    cure = first.get("ctx", {}).get("cure")
    if first["type"] == "no_class":
        near = nearest(location[-1], _known_names(location[:-1]))
        return f"{where}unknown setting {setting!r}, a system without a class", f"{near}; or {cure}"
    if cure is not None:
        return f"{where}{why}", cure
    if not location:
        return f"{where}{why}", "take one of the two out"
    return f"{where}{wrong_values.explanation(f'setting {setting!r}', first)}", "set an allowed value"


def _section(location: list[str]) -> str:
    """The heading of the section at ``location``."""
    return f"[{location[0]}]" if len(location) == 1 else heading(".".join(location[:-1]), location[-1])


def _known_names(location: list[str]) -> Iterator[str]:
    model: Any = Settings
    for part in location:
        field = model.model_fields.get(part) if isinstance(model, type) and issubclass(model, BaseModel) else None
        model = field.annotation if field is not None else StreamSettings
        model = next((each for each in get_args(model) if each is AutoscaleSettings), model)
        if model == dict[str, StreamSettings]:
            model = StreamSettings
    return iter(model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else ())


def nearest(name: str, known: Iterable[str]) -> str:
    """Advice for an unknown name: the most similar known name or, if none is similar, all known names."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known here: {', '.join(names)}"
