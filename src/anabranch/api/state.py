"""Keyed state, as a processor declares and uses it: a value, a list or a map for each key.

A processor works in turns, each on one key. Until a turn ends, this module buffers the turn's changes and the values
that the turn has read. As a result, a value that many messages of a turn use is read from Spark's state store only
once, and a failed message's changes can be undone. Entries that :meth:`MapState.items` reads aren't buffered.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Protocol, Self

from anabranch.api.journal import Journal
from anabranch.errors import UsageError

__all__ = ["ListState", "MapState", "State", "StoredList", "StoredMap", "StoredValue", "ValueState"]

_IMMUTABLE = (str, bytes, int, float, bool, type(None), date, timedelta, Decimal)
_GONE = object()


class StoredValue(Protocol):
    """Stores the value of the current key. If a value isn't of the declared type, ``plain`` raises an exception.
    Otherwise, ``plain`` returns a copy of the value. The copy has the form in which ``get`` returns values.
    """

    def plain(self, value: Any) -> Any: ...
    def get(self) -> Any: ...
    def put(self, value: Any) -> None: ...
    def clear(self) -> None: ...


class StoredList(Protocol):
    """Stores the list of the current key. For ``plain``, see :class:`StoredValue`."""

    def plain(self, value: Any) -> Any: ...
    def get(self) -> Iterable[Any]: ...
    def put(self, values: list[Any]) -> None: ...
    def append(self, values: list[Any]) -> None: ...
    def clear(self) -> None: ...


class StoredMap(Protocol):
    """Stores the map of the current key. ``plain`` checks and copies the value of an entry, as in :class:`StoredValue`.
    ``plain_name`` does the same for the name of an entry."""

    def plain(self, value: Any) -> Any: ...
    def plain_name(self, name: Any) -> Any: ...
    def get(self, name: Any) -> Any: ...
    def items(self) -> Iterable[tuple[Any, Any]]: ...
    def put(self, name: Any, value: Any) -> None: ...
    def remove(self, name: Any) -> None: ...
    def clear(self) -> None: ...


class State:
    """The base class of all kinds of state. In a processor's class, an instance declares state; in a running processor,
    an instance reads and writes the state of the current key. Reading or writing outside of ``on_message`` and
    ``on_timer`` raises UsageError.

    Args:
        type: an SQL type, such as ``"long"`` or ``"array<string>"``, or named fields, such as ``"count long, last
            timestamp"``. With named fields, values are dicts.
    """

    kind: ClassVar[str]

    def __init__(self, type: str) -> None:
        self.type = _checked(type)
        self._stored: Any = None
        self._journal = Journal()
        self.begin()

    @property
    def declared(self) -> dict[str, str]:
        """The declaration as a job's graph stores it: ``kind`` and ``type``, and, for a map, ``names``."""
        return {"kind": self.kind, "type": self.type}

    def bound(self, stored: Any, journal: Journal) -> Self:
        """A copy for a running processor. The copy keeps values in ``stored``, and records changes in ``journal``."""
        made = copy.copy(self)
        made._stored, made._journal = stored, journal
        made.begin()
        return made

    def begin(self) -> None:
        """Begin a turn: forget the values that were read or changed in the previous turn."""

    def flush(self) -> None:
        """Write the buffered changes at the end of the key's turn."""

    @property
    def _held(self) -> Any:
        if self._stored is None:
            raise UsageError(
                f"a {type(self).__name__} was used outside of on_message and on_timer",
                "use it only there, where it holds the state of the current key; declare it in the class",
            )
        return self._stored


class ValueState(State):
    """One value for each key.

    Args:
        type: the SQL type of the value, such as ``"long"``, or named fields, such as ``"count long, last timestamp"``.
            With named fields, the value is a dict.

    Example:
        ```python
        count = ValueState("long")
        ...
        self.count.set(self.count.get(0) + 1)
        ```
    """

    kind = "value"
    _value: Any
    _known: bool
    _changed: bool

    def begin(self) -> None:
        self._value, self._known, self._changed = None, False, False

    def get(self, default: Any = None) -> Any:
        """The value, or ``default`` if the key has none."""
        if not self._known:
            self._value, self._known = self._held.get(), True
        return default if self._value is None else _own(self._value)

    def set(self, value: Any) -> None:
        """Replace the value.

        Raises:
            UsageError: the value is None. Use :meth:`clear` to remove the value.
            TypeError, ValueError: the value is not of the declared type.
        """
        plain = self._held.plain(value)
        if plain is None:
            raise UsageError("the value None can't be stored", "call clear() to remove the value")
        self._become(plain)

    def clear(self) -> None:
        """Remove the value."""
        self._become(None)

    def flush(self) -> None:
        if self._changed and self._value is None:
            self._held.clear()
        elif self._changed:
            self._held.put(self._value)

    def _become(self, value: Any) -> None:
        was = self._value, self._known, self._changed
        self._held  # noqa: B018

        def undo() -> None:
            self._value, self._known, self._changed = was

        self._journal.note(undo)
        self._value, self._known, self._changed = value, True, True


class ListState(State):
    """A list of values for each key. Appending does not read the list.

    Args:
        type: the SQL type of a value, or named fields, as for :class:`ValueState`.

    Example:
        ```python
        recent = ListState("at timestamp, amount double")
        ...
        self.recent.append({"at": message["at"], "amount": message["amount"]})
        self.recent.set(self.recent.get()[-10:])
        ```
    """

    kind = "list"
    _base: list[Any] | None
    _added: list[Any]
    _replaced: bool

    def begin(self) -> None:
        self._base, self._added, self._replaced = None, [], False

    def get(self) -> list[Any]:
        """All values, in the list's order; an empty list if there are none."""
        if self._base is None:
            self._base = list(self._held.get())
        return [_own(value) for value in (*self._base, *self._added)]

    def append(self, value: Any) -> None:
        """Add a value at the end.

        Raises:
            UsageError: the value is None.
            TypeError, ValueError: the value is not of the declared type.
        """
        added = self._held.plain(value)
        if added is None:
            raise UsageError("the value None can't be stored in a list", "append another one")
        self._journal.note(self._added.pop)
        self._added.append(added)

    def set(self, values: Iterable[Any]) -> None:
        """Replace the whole list.

        Raises:
            UsageError: a value is None.
            TypeError, ValueError: a value is not of the declared type.
        """
        held = self._held
        given = [held.plain(value) for value in values]
        if any(value is None for value in given):
            raise UsageError("the value None can't be stored in a list", "leave it out")
        self._become(given)

    def clear(self) -> None:
        """Remove all values."""
        self._become([])

    def flush(self) -> None:
        if self._replaced:
            whole = [*(self._base or ()), *self._added]
            if whole:
                self._held.put(whole)
            else:
                self._held.clear()
        elif self._added:
            self._held.append(self._added)

    def _become(self, values: list[Any]) -> None:
        was = self._base, self._added, self._replaced
        self._held  # noqa: B018

        def undo() -> None:
            self._base, self._added, self._replaced = was

        self._journal.note(undo)
        self._base, self._added, self._replaced = values, [], True


class MapState(State):
    """A map for each key. Entries are read one by one; only :meth:`items` reads all of them.

    Args:
        names: the SQL type of the entries' names: a simple type, such as ``"string"``.
        type: the SQL type of the entries' values, or named fields, as for :class:`ValueState`.

    Example:
        ```python
        seen = MapState("string", "timestamp")
        ...
        if message["dest"] not in self.seen:
            self.seen.set(message["dest"], message["at"])
        ```
    """

    kind = "map"
    _known: dict[Any, Any]
    _changed: dict[Any, None]
    _cleared: bool

    def __init__(self, names: str, type: str) -> None:
        super().__init__(type)
        self.names = _checked(names)

    @property
    def declared(self) -> dict[str, str]:
        return {**super().declared, "names": self.names}

    def begin(self) -> None:
        self._known, self._changed, self._cleared = {}, {}, False

    def get(self, name: Any, default: Any = None) -> Any:
        """The value of the entry with this name, or ``default`` if there is no such entry.

        Raises:
            TypeError, ValueError: the name is not of the declared type.
        """
        name = self._held.plain_name(name)
        if name not in self._known:
            found = None if self._cleared else self._held.get(name)
            self._known[name] = _GONE if found is None else found
        value = self._known[name]
        return default if value is _GONE else _own(value)

    def __contains__(self, name: Any) -> bool:
        return self.get(name) is not None

    def set(self, name: Any, value: Any) -> None:
        """Add an entry, or replace its value.

        Raises:
            UsageError: the name or the value is None.
            TypeError, ValueError: the name or the value is not of the declared type.
        """
        held = self._held
        plain_name, plain = held.plain_name(name), held.plain(value)
        if plain_name is None or plain is None:
            raise UsageError("the value None can't be stored in a map", "call delete(name) to remove the entry")
        self._become(plain_name, plain)

    def delete(self, name: Any) -> None:
        """Remove the entry with this name, if there is one.

        Raises:
            TypeError, ValueError: the name is not of the declared type.
        """
        self._become(self._held.plain_name(name), _GONE)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries as pairs of name and value, in no particular order."""
        whole = {} if self._cleared else dict(self._held.items())
        whole |= {name: self._known[name] for name in self._changed}
        return iter([(name, _own(value)) for name, value in whole.items() if value is not _GONE])

    def clear(self) -> None:
        """Remove all entries."""
        was = self._known, self._changed, self._cleared
        self._held  # noqa: B018

        def undo() -> None:
            self._known, self._changed, self._cleared = was

        self._journal.note(undo)
        self._known, self._changed, self._cleared = {}, {}, True

    def flush(self) -> None:
        if self._cleared:
            self._held.clear()
        for name in self._changed:
            value = self._known[name]
            if value is not _GONE:
                self._held.put(name, value)
            elif not self._cleared:
                self._held.remove(name)

    def _become(self, name: Any, value: Any) -> None:
        known, changed = self._known, self._changed
        had, was_changed = known.get(name, None), name in changed
        self._held  # noqa: B018

        def undo() -> None:
            if had is None:
                known.pop(name, None)
            else:
                known[name] = had
            if not was_changed:
                changed.pop(name, None)

        self._journal.note(undo)
        known[name] = value
        changed[name] = None


def _own(value: Any) -> Any:
    """A deep copy; immutable values are returned as they are."""
    return value if isinstance(value, _IMMUTABLE) else copy.deepcopy(value)


def _checked(declared: object) -> str:
    if not isinstance(declared, str) or not declared.strip():
        raise UsageError(
            f"state was declared with {declared!r}, not a type", 'write an SQL type: ValueState("long"), for one'
        )
    return declared
