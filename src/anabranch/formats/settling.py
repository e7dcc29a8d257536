"""Determines the formats of a job's streams from settings, schema files and the registry."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from anabranch.config import Settings, StreamSettings
from anabranch.config.headings import heading
from anabranch.errors import ConfigError
from anabranch.formats.format import Format
from anabranch.formats.registry import Registry

__all__ = ["declared", "settled"]

_WITH_SCHEMA = ("avro", "confluent", "protobuf")
"""The formats whose schemas come from a schema file or the registry."""


def declared(settings: Settings, streams: Iterable[str]) -> dict[str, str]:
    """For each stream with the format avro, confluent or protobuf, a string that identifies the format as declared by
    settings and schema files.

    A job can't continue if the string for one of its streams has changed. The string doesn't depend on the registry.
    """
    found: dict[str, str] = {}
    for stream in streams:
        bound = settings.streams.get(stream)
        if bound is not None and bound.format in _WITH_SCHEMA:
            said = [bound.message, bound.subject, _file(stream, bound)]
            found[stream] = f"{bound.format} {hashlib.sha256(json.dumps(said).encode()).hexdigest()[:12]}"
    return found


def settled(
    settings: Settings,
    read: Collection[str],
    written: Collection[str],
    kept: Mapping[str, Format] = {},
    register: bool = False,
) -> dict[str, Format]:
    """The formats of a job's streams, by stream name. Streams that have no section in the settings are JSON, and are
    missing from the result.

    Args:
        read: the streams that the job reads.
        written: the streams that the job writes.
        kept: for each stream, the format that is stored for the job, or with which the job was planned. If a stream's
            format is confluent both in ``kept`` and in the settings, the kept format is used again, so that a repeated
            batch can read the same records. However, the registry is asked again if the kept format has no ``writers``,
            or if the job writes the stream and the kept schema wasn't registered.
        register: whether to register unregistered schemas with which the job writes. Otherwise, the id of such a schema
            is -1, which suffices to plan a job.

    Raises:
        ConfigError: a setting or a schema is missing or invalid.
        AnabranchError: the registry doesn't answer, or refuses a request.
    """
    bound = {name: settings.streams[name] for name in sorted({*read, *written}) if name in settings.streams}
    found = {name: _of_settings(name, each) for name, each in bound.items() if each.format != "confluent"}
    missing = bound.keys() - found.keys()
    found |= {name: kept[name] for name in missing & kept.keys() if _stays(kept[name], name in written)}
    if len(found) < len(bound):
        with Registry(settings.formats) as registry:
            for name in bound.keys() - found.keys():
                found[name] = _of_registry(registry, name, bound[name], name in written, register)
    return found


def _stays(kept: Format, written: bool) -> bool:
    return kept.name == "confluent" and bool(kept.writers) and (kept.id >= 0 or not written)


def _of_settings(stream: str, bound: StreamSettings) -> Format:
    if bound.format not in _WITH_SCHEMA:
        return Format(name=bound.format)
    file = "flights.avsc" if bound.format == "avro" else "flights.desc"
    if bound.schema_file is None:
        raise ConfigError(
            f'streams.{stream} has format = "{bound.format}" and no schema',
            f'set {heading("streams", stream)} schema_file = "{file}"',
        )
    if bound.format == "protobuf" and bound.message is None:
        raise ConfigError(
            f'streams.{stream} has format = "protobuf" and no message',
            f'set {heading("streams", stream)} message = "Flight"',
        )
    return Format(name=bound.format, schema=_file(stream, bound), message=bound.message or "")


def _of_registry(registry: Registry, stream: str, bound: StreamSettings, written: bool, register: bool) -> Format:
    subject = bound.subject or f"{bound.topic or stream}-value"
    versions = registry.versions(subject)
    writers = {str(each.id): each.schema for each in versions}
    if not versions and not (written and bound.schema_file):  # no schema is kept with which no value could be read
        settings = f"{heading('streams', stream)} subject" + (", or schema_file" if written else "")
        raise ConfigError(
            f"the schema registry knows no subject {subject!r}, that of stream {stream}",
            f"register a schema; or set {settings}; its subjects: {', '.join(registry.subjects()) or 'none'}",
        )
    if bound.schema_file is None:
        return Format(name="confluent", schema=versions[-1].schema, id=versions[-1].id, writers=writers)
    schema = _file(stream, bound)
    if not written:
        return Format(name="confluent", schema=schema, writers=writers)
    number = registry.register(subject, schema) if register else registry.id(subject, schema)
    known = {} if number is None else {str(number): schema}
    return Format(name="confluent", schema=schema, id=-1 if number is None else number, writers={**writers, **known})


def _file(stream: str, bound: StreamSettings) -> str:
    """The content of the schema file. An Avro schema is returned as text, and a descriptor set in base64. If no schema
    file is configured, the result is ''.
    """
    path = bound.schema_file
    if path is None:
        return ""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{path}, the schema of stream {stream}, can't be read: {error.strerror}",
            f"let {heading('streams', stream)} schema_file name a file that is there",
        ) from None
    return base64.b64encode(content).decode() if bound.format == "protobuf" else _avro(stream, path, content)


def _avro(stream: str, path: Path, content: bytes) -> str:
    """An Avro schema without insignificant whitespace."""
    try:
        schema: Any = json.loads(content)
    except ValueError as error:
        raise ConfigError(f"{path}, the schema of stream {stream}, is not JSON: {error}", "fix it") from None
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise ConfigError(f"{path}, the schema of stream {stream}, isn't an Avro record", 'give it "type": "record"')
    return json.dumps(schema, separators=(",", ":"))
