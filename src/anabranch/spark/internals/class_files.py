"""Reads the names of a Java class's methods and fields from its class file.

Reflection would be slower: Java would load hundreds of classes, because it loads each class that is examined and all
classes in the signatures of its methods. A session would take one second longer to start.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

__all__ = ["ClassFile", "parsed"]

_MAGIC = 0xCAFEBABE
_UTF8, _CLASS = 1, 7
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""For each tag in the constant pool, how many bytes follow the tag in an entry. (The tag for text isn't listed: an
entry with text contains the text's length.)
"""
_TWO_PLACES = (5, 6)
"""The tags of a long and a double, each of which takes up two entries."""


@dataclass(frozen=True)
class ClassFile:
    """The description of a class in its class file.

    Attributes:
        members: the names of the methods and fields that the class itself declares.
        parents: the full names of the superclass and of the interfaces.
    """

    members: frozenset[str]
    parents: tuple[str, ...]


def parsed(data: bytes) -> ClassFile:
    """Read a class file. (For the format, see the Java Virtual Machine Specification, chapter 4.)

    Raises:
        ValueError: the data isn't a class file.
    """
    if struct.unpack_from(">I", data)[0] != _MAGIC:
        raise ValueError("no Java class file")
    texts, classes, at = _constants(data)
    parent, count = struct.unpack_from(">HH", data, at + 4)
    interfaces = struct.unpack_from(f">{count}H", data, at + 8)
    names = [texts[classes[each]].replace("/", ".") for each in (parent, *interfaces) if each]
    at += 8 + 2 * count
    members: set[str] = set()
    for _ in ("fields", "methods"):
        (count,) = struct.unpack_from(">H", data, at)
        at += 2
        for _ in range(count):
            name, attributes = struct.unpack_from(">2xH2xH", data, at)
            members.add(texts[name])
            at = _after(data, at + 8, attributes)
    return ClassFile(frozenset(members), tuple(names))


def _constants(data: bytes) -> tuple[dict[int, str], dict[int, int], int]:
    """Reads the constant pool, and returns three values. The first is a dict from entry numbers to texts. The second is
    a dict from the entry number of each class to the entry number of the class's name. The third is the position at
    which the pool ends.
    """
    texts: dict[int, str] = {}
    classes: dict[int, int] = {}
    (count,) = struct.unpack_from(">H", data, 8)
    at, number = 10, 1
    while number < count:
        tag = data[at]
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", data, at + 1)
            texts[number] = data[at + 3 : at + 3 + size].decode("utf-8", "replace")
            at += 3 + size
        else:
            if tag == _CLASS:
                (classes[number],) = struct.unpack_from(">H", data, at + 1)
            at += 1 + _SIZES[tag]
        number += 2 if tag in _TWO_PLACES else 1
    return texts, classes, at


def _after(data: bytes, at: int, attributes: int) -> int:
    """The position after ``attributes`` attributes, the first of which begins at ``at``."""
    for _ in range(attributes):
        (size,) = struct.unpack_from(">I", data, at + 2)
        at += 6 + size
    return at
