"""Describes how two versions of a job differ: in operators and their arguments, streams, tables and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from anabranch.model.graph import Graph, Node
from anabranch.planning.fingerprints import DELIVERY, FORMAT, OUTPUT, PARTITIONS, PATTERN, TABLE, differing

__all__ = ["described"]

_OPERATOR = "operator "
_SHORT = 100
_SETTINGS = (DELIVERY, FORMAT, PATTERN)


def described(
    before: Graph, after: Graph, fingerprint: Mapping[str, str], following: Mapping[str, str]
) -> tuple[str, ...]:
    """Describe, in one clause each, the differences that prevent ``after`` from continuing with the positions and the
    state of ``before``. Different partition counts of inputs don't prevent this: a running job adapts to them.

    Args:
        fingerprint: the fingerprint of ``before``.
        following: the fingerprint of ``after``.
    """
    names = differing(fingerprint, following)
    found: list[str] = []
    for name in names:
        if name.startswith(_OPERATOR):
            operator = name.removeprefix(_OPERATOR)
            found += _operator(operator, _node(before, operator), _node(after, operator), before, after)
        else:
            found.append(_other(name, fingerprint.get(name), following.get(name)))
    return tuple(found) if found or not names else ("the order of its operators has changed",)


def _node(graph: Graph, name: str) -> Node | None:
    return next((node for node in graph.nodes if node.name == name), None)


def _operator(name: str, old: Node | None, new: Node | None, before: Graph, after: Graph) -> Iterator[str]:
    if old is None or new is None:
        node = old or new
        kind = "" if node is None else f"{node.kind} "
        where = f" ({new.where})" if new is not None and new.where else ""
        yield f"{kind}{name!r} is {'gone' if new is None else 'new'}{where}"
        return
    where = f" ({new.where})" if new.where else ""
    label = f"{new.kind} {name!r}{where}"
    if old.kind != new.kind:
        yield f"{label} was {old.kind} before"
        return
    changes = [*_changes(old.args, new.args)]
    read = [[graph[i].name for i in node.inputs] for graph, node in ((before, old), (after, new))]
    if read[0] != read[1]:
        changes.append(f"comes after {_listed(read[1])}, and came after {_listed(read[0])}")
    if changes:  # otherwise only the operator's number has changed
        yield f"{label}: {'; '.join(changes)}"


def _changes(old: Mapping[str, Any], new: Mapping[str, Any], under: str = "") -> Iterator[str]:
    """The arguments that differ, as text. If an argument is a mapping, only the entries that differ are included."""
    for name in dict.fromkeys((*old, *new)):
        was, is_now = old.get(name), new.get(name)
        label = f"{under}{name}"
        if was == is_now:
            continue
        if isinstance(was, Mapping) and isinstance(is_now, Mapping):
            yield from _changes(was, is_now, f"{label}.")
        elif name not in old:
            yield f"{label} is new: {_text(is_now)}"
        elif name not in new:
            yield f"{label} is gone: {_text(was)}"
        else:
            yield f"{label} is {_text(is_now)}, and was {_text(was)}"


def _other(name: str, old: str | None, new: str | None) -> str:
    """The text for a difference that doesn't concern operators."""
    if name.startswith((OUTPUT, TABLE)):
        if old is None or new is None:
            return f"{name} is {'new' if old is None else 'not written any more'}"
        return f"{name} {'was deleted and created again' if new else 'is gone'}"
    if name.startswith(PARTITIONS):
        return f"input {name.removeprefix(PARTITIONS)} is {'new' if old is None else 'gone'}"
    if name.startswith(_SETTINGS) or old is None or new is None:
        return f"{name} is {_text(new)}, and was {_text(old)}"
    return f"[job] {name} is {_text(new)}, and was {_text(old)}"


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    found = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return found if len(found) <= _SHORT else f"{found[:_SHORT]}…"


def _listed(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names) or "nothing"
