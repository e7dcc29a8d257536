"""The headings of sections in ``anabranch.toml``, for messages."""

from __future__ import annotations

import json
import re

__all__ = ["heading"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def heading(kind: str, name: str) -> str:
    """The heading of ``name``'s section, such as ``[streams.flights]``. A name with a dot is quoted, as in
    ``[streams."eu.flights"]``, because an unquoted dot begins a subsection.
    """
    return f"[{kind}.{name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)}]"
