"""Where a stream's files are, what ``stream.json`` contains, and which names a stream can have. (A folder is a stream
if it contains ``stream.json``.)
"""

from __future__ import annotations

import os
import re
from typing import TypeVar

import msgspec

from anabranch.errors import LogError, UnsupportedFormatError, UsageError
from anabranch.systems.retention import Retention

__all__ = [
    "FORMAT_VERSION",
    "StreamInfo",
    "check_name",
    "decode",
    "decode_info",
    "encode_info",
    "info_path",
    "manifest_folder",
    "partition_folders",
    "readers_folder",
    "segments_folder",
    "start_path",
]

FORMAT_VERSION = 1

T = TypeVar("T")

_NAME = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,249}")
_PARTITION = re.compile(r"0|[1-9][0-9]*")


class StreamInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``stream.json``. ``id`` distinguishes the stream from an earlier stream of the same name. Offsets
    of the earlier stream mean nothing in this stream."""

    id: str
    name: str
    partitions: int
    retention: Retention = Retention()


class _StreamFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    version: int
    id: str
    name: str
    partitions: int
    retention: Retention = Retention()


def check_name(stream: str) -> str:
    """Return ``stream`` if it is allowed as a stream's name; otherwise raise UsageError. The rules are Kafka's, but a
    name can't begin with a dot."""
    if not _NAME.fullmatch(stream):
        raise UsageError(
            f"{stream!r} can't be the name of a stream",
            "use letters, digits, '.', '_' and '-', at most 249, and no dot in front",
        )
    return stream


def info_path(root: str, stream: str) -> str:
    return f"{root}/{stream}/stream.json"


def manifest_folder(root: str, stream: str, partition: int) -> str:
    return f"{root}/{stream}/{partition}/manifest"


def segments_folder(root: str, stream: str, partition: int) -> str:
    return f"{root}/{stream}/{partition}/segments"


def start_path(root: str, stream: str, partition: int) -> str:
    return f"{root}/{stream}/{partition}/start.json"


def readers_folder(root: str, stream: str) -> str:
    """The folder with a file for each job that reads the stream. If there is no folder, the stream has no readers."""
    return f"{root}/{stream}/readers"


def partition_folders(root: str, stream: str) -> list[int]:
    """Every partition with a manifest folder, including those that an expansion is preparing."""
    names = (name for name in os.listdir(f"{root}/{stream}") if _PARTITION.fullmatch(name))
    return sorted(int(name) for name in names if os.path.isdir(f"{root}/{stream}/{name}/manifest"))


def encode_info(info: StreamInfo) -> bytes:
    file = _StreamFile(
        version=FORMAT_VERSION, id=info.id, name=info.name, partitions=info.partitions, retention=info.retention
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def decode_info(raw: bytes, path: str) -> StreamInfo:
    file = decode(raw, _DECODE_STREAM, path)
    return StreamInfo(id=file.id, name=file.name, partitions=file.partitions, retention=file.retention)


class _Versioned(msgspec.Struct):
    version: int


_DECODE_VERSION = msgspec.json.Decoder(_Versioned)
_DECODE_STREAM = msgspec.json.Decoder(_StreamFile)


def decode(raw: bytes, decoder: msgspec.json.Decoder[T], path: str) -> T:
    """Parse one of the log's JSON files with the decoder for its kind. ``path`` is the file's path, for messages.

    Raises:
        UnsupportedFormatError: the file has another format version.
        LogError: the content isn't valid for a file of this kind.
    """
    try:
        version = _DECODE_VERSION.decode(raw).version
        if version != FORMAT_VERSION:
            raise UnsupportedFormatError(
                f"{path} has format version {version}; this anabranch knows {FORMAT_VERSION}",
                "upgrade anabranch; nothing was changed",
            )
        return decoder.decode(raw)
    except msgspec.DecodeError as error:
        raise LogError(f"{path} is damaged: {error}", "restore the file from a backup") from error
