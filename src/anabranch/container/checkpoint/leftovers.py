"""Determines which files in a lane's folder were left by a killed process and could disturb the next query."""

from __future__ import annotations

import enum
import re
from collections.abc import Collection

__all__ = ["OF_BATCHES", "PART", "Kind", "classify", "is_temporary"]

PART = ".part"
"""The suffix of files that anabranch is still writing. Spark uses other suffixes."""

OF_BATCHES = ("offsets", "commits", "state")
"""Folders that must be empty if the query has planned no batch; otherwise, Spark doesn't start the query."""

_OURS = re.compile(rf"\.?.+\.[0-9a-f]{{32}}{re.escape(PART)}(?:\.crc)?")
_SPARKS = re.compile(r"\.{1,2}[^.].*\.tmp(?:\.crc)?")
"""Matches temporary files of Spark, such as ``.0.85a21cef-2c22-49c8-b909-e9ca04a59a10.tmp``."""
_CHECKSUM = re.compile(r"\.(?P<of>.+)\.crc")
_VERSION = re.compile(r"state/\d+/\d+/(?:[^/]+/)?(\d+)(?:_[^/]+)?\.(?:changelog|zip|delta|snapshot)")
"""Matches a file with the state after a batch. The number in its name is the number of the next batch."""
_SCHEMA = re.compile(r"state/\d+/(?:_metadata/v2/(\d+)|_stateSchema/[^/]+/(\d+)_[^/]+)")
"""Matches a file with the schema of the state. The number in its name is the number of the batch that wrote it."""


class Kind(enum.Enum):
    """Why a file is a leftover."""

    OURS = "a file that anabranch had not written whole"
    SPARKS = "a file that Spark had not written whole"
    CHECKSUM = "a checksum without its file"
    UNPLANNED = "a file, although no batch was planned"
    UNCOMMITTED = "a file of a batch that was not committed"
    """The batch is run again. If the file weren't removed, Spark might keep it, even if the new run has
    different results."""


def classify(names: Collection[str]) -> dict[str, Kind]:
    """The leftovers in a folder in which no process is working: the kind of each leftover, by the file's path.

    ``names`` are the paths of all files in the folder, relative to it.
    """
    there = set(names)
    planned, committed = _last("offsets", names), _last("commits", names)
    done = planned - 1 if planned > committed else committed
    found: dict[str, Kind] = {}
    for name in names:
        folder, _, file = name.rpartition("/")
        checksum = _CHECKSUM.fullmatch(file)
        of = name if checksum is None else "/".join([folder, checksum["of"]][not folder :])
        if _OURS.fullmatch(file):
            found[name] = Kind.OURS
        elif _SPARKS.fullmatch(file):
            found[name] = Kind.SPARKS
        elif of not in there:
            found[name] = Kind.CHECKSUM
        elif max(planned, committed) < 0 and name.partition("/")[0] in OF_BATCHES:
            found[name] = Kind.UNPLANNED
        elif _is_of_state_after(of, done, whole=done < 0):
            found[name] = Kind.UNCOMMITTED
    return found


def is_temporary(name: str) -> bool:
    """Whether a file is being written, or was being written when a process was killed."""
    file = name.rpartition("/")[2]
    return bool(_OURS.fullmatch(file) or _SPARKS.fullmatch(file))


def _is_of_state_after(name: str, batch: int, *, whole: bool) -> bool:
    """Whether a file belongs to the state of a batch after ``batch``. With ``whole``, whether the file belongs to the
    state of any batch.
    """
    if whole:
        return name.startswith("state/")
    version, schema = _VERSION.fullmatch(name), _SCHEMA.fullmatch(name)
    if version is not None:
        return int(version[1]) > batch + 1
    return schema is not None and int(schema[1] or schema[2]) > batch


def _last(folder: str, names: Collection[str]) -> int:
    entries = (name.rpartition("/") for name in names)
    return max((int(file) for place, _, file in entries if place == folder and file.isdecimal()), default=-1)
