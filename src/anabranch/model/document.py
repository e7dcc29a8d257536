"""JSON documents with a format version. Field names are in camelCase, unknown fields are kept, and unknown versions are
refused."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar

import msgspec

from anabranch.errors import UnsupportedFormatError

FORMAT_VERSION = 1

T = TypeVar("T", bound="Document")

first_use = threading.Lock()
"""Decoders are made under this lock, or when their module is imported. msgspec collects information about a type when
the type is first used. Without the lock, another thread could read this information before it is complete, and the
process would crash.
"""


class UnknownVersionError(UnsupportedFormatError):
    """A document is intact, but has a format version that this program doesn't know."""


class Unknown(dict[str, Any]):
    """The fields of a document that this program doesn't know. Don't change such a dict after the document has been
    made, because the document's hash depends on it.
    """

    def __hash__(self) -> int:  # type: ignore[override]
        return len(self)


class Document(
    msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False, forbid_unknown_fields=True, gc=False
):
    """An immutable object that round-trips through JSON. Fields that this program doesn't know are kept in ``extra``.

    Only the outermost document of a file or message has a ``version``; see :func:`encode`. There may be millions of
    documents, so the garbage collector ignores documents. This is safe, because a document can't contain itself.
    """

    extra: Unknown | msgspec.UnsetType = msgspec.UNSET

    @classmethod
    def from_builtins(cls, value: Any) -> Self:
        """Make a document from parsed JSON. Raises msgspec.ValidationError, which names the field, if a field is
        invalid or missing.
        """
        _decoder(cls)
        return msgspec.convert(_collect_extra(cls, value), cls)

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Parsed JSON, converted to the current form if an older version of anabranch wrote it."""
        return value

    def to_builtins(self) -> dict[str, Any]:
        """The document as plain dicts, lists and scalars, including its unknown fields."""
        known = {
            name: _plain(getattr(self, field.name)) for name, field in _fields(type(self)).items() if name != "extra"
        }
        return {**known, **(self.extra or {})}


def encode(document: Document) -> bytes:
    """The document as JSON bytes, with the format version."""
    return msgspec.json.format(compact(document), indent=2)


def compact(document: Document) -> bytes:
    """The same as :func:`encode`, but on one line."""
    raw = msgspec.json.encode(document)
    if b'"extra":' in raw:
        raw = msgspec.json.encode(document.to_builtins())
    return b'{"version":%d,%b' % (FORMAT_VERSION, raw[1:])


def decode(raw: bytes | str, kind: type[T]) -> T:
    """The inverse of :func:`encode`.

    Raises:
        UnsupportedFormatError: ``raw`` isn't a JSON object, has an unknown version, lacks a field that has no
            default, or has a field of the wrong type.
    """
    try:
        found: T = _decoder(kind)(raw)
    except (msgspec.DecodeError, RecursionError):
        return _decode_slowly(raw, kind)  # the document has unknown fields, or is invalid
    return found


def _decode_slowly(raw: bytes | str, kind: type[T]) -> T:
    try:
        parsed = msgspec.json.decode(raw, type=dict[str, Any])
        version = parsed.pop("version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise UnknownVersionError(
                f"a {kind.__name__} of format version {version} can't be read by this anabranch "
                f"(it knows {FORMAT_VERSION})",
                "upgrade anabranch; nothing was changed",
            )
        return kind.from_builtins(parsed)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnsupportedFormatError(
            f"not a {kind.__name__}: {error}", "restore the file; nothing was changed"
        ) from error


@functools.cache
def _decoder(kind: type[T]) -> Callable[[bytes | str], T]:
    """A decoder for documents in which all fields are known. It raises msgspec.DecodeError for any other document."""
    names = [field.name for field in msgspec.structs.fields(kind)]
    version = ("version", Literal[1], FORMAT_VERSION)
    versioned = msgspec.defstruct(kind.__name__, [version], bases=(kind,), kw_only=True, frozen=True)
    with first_use:
        msgspec.json.Decoder(kind)
        read = msgspec.json.Decoder(versioned).decode

    def decoded(raw: bytes | str) -> T:
        found = read(raw)
        return kind(**{name: getattr(found, name) for name in names})

    return decoded


@functools.cache
def _fields(kind: type[Document]) -> dict[str, msgspec.structs.FieldInfo]:
    return {field.encode_name: field for field in msgspec.structs.fields(kind)}


def _collect_extra(kind: type[Document], value: Any) -> Any:
    """Move undeclared fields into ``extra``, in nested documents, too."""
    if not isinstance(value, dict):
        return value
    value = kind.upgraded(value)
    fields = _fields(kind)
    known: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, item in value.items():
        if name in fields and name != "extra":
            known[name] = _descend(fields[name].type, item)
        else:
            extra[name] = item
    if extra:
        known["extra"] = Unknown(extra)
    return known


def _descend(annotation: Any, value: Any) -> Any:
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return _collect_extra(annotation, value)
    arguments = getattr(annotation, "__args__", ())
    nested = [a for a in arguments if _holds_document(a)]
    if not nested:
        return value
    if isinstance(value, list):
        return [_descend(nested[0], item) for item in value]
    if isinstance(value, dict) and getattr(annotation, "__origin__", None) is dict:
        return {name: _descend(nested[0], item) for name, item in value.items()}
    return _descend(nested[0], value)


def _holds_document(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Document):
        return True
    return any(_holds_document(a) for a in getattr(annotation, "__args__", ()))


def _plain(value: Any) -> Any:
    """A field's value in its JSON form. A document's ``extra`` contains its unknown fields; in a dict, ``extra`` is a
    key like any other.
    """
    if isinstance(value, Document):
        return value.to_builtins()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return msgspec.to_builtins(value)
