"""A processor's state, on a store in memory: what a message sees, what is kept, what a failure leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import ListState, MapState, ValueState
from anabranch.api.journal import Journal
from anabranch.errors import UsageError
from tests.unit.api.stored import Store


class Lists(Store):
    def get(self, *name: Any) -> Any:
        return super().get() or []


def test_many_messages_ask_the_store_once() -> None:
    store, journal = Store(), Journal()
    state = ValueState("long").bound(store, journal)
    assert state.get() is None
    assert state.get(0) == 0
    for _ in range(10):
        journal.begin()
        state.set(state.get(0) + 1)
    assert store.asked == 1
    state.flush()
    assert (store.value, store.asked) == (10, 2)
    state.begin()
    assert state.get() == 10
    state.flush()
    assert store.asked == 3, "nothing was changed"
    state.clear()
    assert state.get(5) == 5
    state.flush()
    assert store.value is None


def test_what_a_message_gets_is_its_own() -> None:
    store = Store()
    state = ValueState("n array<long>").bound(store, Journal())
    mine = {"n": [1]}
    state.set(mine)
    mine["n"].append(2)
    state.get()["n"].append(3)
    assert state.get() == {"n": [1]}


class Converting(Lists):
    def plain(self, value: Any) -> Any:
        return str(value)

    plain_name = plain


def test_what_is_read_is_what_is_stored_in_the_same_turn_too() -> None:
    store = Converting()
    value = ValueState("string").bound(store, Journal())
    value.set(5)
    assert value.get() == "5"
    several = ListState("string").bound(store, Journal())
    several.set([1])
    several.append(2)
    assert several.get() == ["1", "2"]


def test_an_entry_has_one_name_however_it_is_written() -> None:
    store = Converting()
    state = MapState("string", "string").bound(store, Journal())
    state.set(7, 1)
    state.set("7", 2)
    assert (state.get(7), state.get("7"), 7 in state) == ("2", "2", True)
    assert list(state.items()) == [("7", "2")]
    state.flush()
    assert store.entries == {"7": "2"}
    state.begin()
    state.delete(7)
    assert "7" not in state
    state.flush()
    assert store.entries == {}


MAP = st.tuples(st.sampled_from(["set", "delete", "clear", "get", "items"]), st.sampled_from("ab"), st.integers(1, 9))
LIST = st.tuples(st.sampled_from(["append", "set", "clear", "get"]), st.just(""), st.integers(1, 9))
MESSAGES = st.tuples(st.booleans(), st.booleans())


@given(st.lists(st.tuples(MESSAGES, st.lists(MAP, max_size=4)), max_size=6))
def test_a_map_is_as_a_dict_that_forgets_failed_messages(several: list[tuple[tuple[bool, bool], list[Any]]]) -> None:
    store, journal, expected = Store(), Journal(), dict[str, int]()
    state = MapState("string", "long").bound(store, journal)
    for (fails, ends), steps in several:
        journal.begin()
        before = dict(expected)
        for what, name, value in steps:
            if what == "set":
                state.set(name, value)
                expected[name] = value
            elif what == "delete":
                state.delete(name)
                expected.pop(name, None)
            elif what == "clear":
                state.clear()
                expected = {}
            elif what == "get":
                assert state.get(name) == expected.get(name)
                assert (name in state) == (name in expected)
            assert dict(state.items()) == expected
        if fails:
            journal.take_back()
            expected = before
            assert dict(state.items()) == expected
        if ends:
            state.flush()
            state.begin()
            assert store.entries == expected
    state.flush()
    assert store.entries == expected


@given(st.lists(st.tuples(MESSAGES, st.lists(LIST, max_size=4)), max_size=6))
def test_a_list_is_as_a_list_that_forgets_failed_messages(several: list[tuple[tuple[bool, bool], list[Any]]]) -> None:
    store, journal, expected = Lists(), Journal(), list[int]()
    state = ListState("long").bound(store, journal)
    for (fails, ends), steps in several:
        journal.begin()
        before = list(expected)
        for what, _, value in steps:
            if what == "append":
                state.append(value)
                expected = [*expected, value]
            elif what == "set":
                state.set([value, value])
                expected = [value, value]
            elif what == "clear":
                state.clear()
                expected = []
            else:
                assert state.get() == expected
        if fails:
            journal.take_back()
            expected = before
        if ends:
            state.flush()
            state.begin()
            assert (store.value or []) == expected
    state.flush()
    assert (store.value or []) == expected


def test_to_append_reads_nothing() -> None:
    store = Lists()
    state = ListState("long").bound(store, Journal())
    state.append(1)
    state.append(2)
    state.flush()
    assert (store.value, store.asked) == ([1, 2], 1)


@pytest.mark.parametrize("value", [None, "wrong"])
def test_what_can_t_be_kept_is_told_at_once(value: Any) -> None:
    journal = Journal()
    with pytest.raises((UsageError, TypeError)):
        ValueState("long").bound(Store(), journal).set(value)
    with pytest.raises((UsageError, TypeError)):
        ListState("long").bound(Lists(), journal).append(value)
    with pytest.raises((UsageError, TypeError)):
        ListState("long").bound(Lists(), journal).set([value])
    with pytest.raises((UsageError, TypeError)):
        MapState("string", "long").bound(Store(), journal).set("a", value)
    with pytest.raises((UsageError, TypeError)):
        MapState("string", "long").bound(Store(), journal).set(value, 1)


class Uncopied(dict[str, int]):
    """A value that can be stored, but not copied."""

    def __deepcopy__(self, memo: object) -> Uncopied:
        raise TypeError("can't be copied")


@pytest.mark.parametrize(
    "use",
    [
        lambda journal: ValueState("n int").bound(Store(), journal).set,
        lambda journal: ListState("n int").bound(Lists(), journal).append,
        lambda journal: lambda value: ListState("n int").bound(Lists(), journal).set([value]),
        lambda journal: lambda value: MapState("string", "n int").bound(Store(), journal).set("a", value),
    ],
    ids=["value", "append", "list", "map"],
)
def test_a_value_that_can_t_be_copied_changes_nothing(use: Callable[[Journal], Callable[[Any], None]]) -> None:
    journal = Journal()
    with pytest.raises(TypeError, match="can't be copied"):
        use(journal)(Uncopied(n=1))
    journal.take_back()


def test_a_failed_append_keeps_what_earlier_messages_appended() -> None:
    store, journal = Lists(), Journal()
    state = ListState("n int").bound(store, journal)
    state.append({"n": 1})
    journal.begin()
    with pytest.raises(TypeError, match="can't be copied"):
        state.append(Uncopied(n=2))
    journal.take_back()
    state.flush()
    assert store.value == [{"n": 1}]


@pytest.mark.parametrize(
    "use",
    [lambda state: state.delete("wrong"), lambda state: state.get("wrong"), lambda state: "wrong" in state],
    ids=["delete", "get", "in"],
)
@pytest.mark.parametrize("cleared", [False, True])
def test_a_name_that_no_entry_can_have_is_told_at_once(use: Callable[[MapState], Any], cleared: bool) -> None:
    store = Store()
    state = MapState("string", "long").bound(store, Journal())
    if cleared:
        state.clear()
    with pytest.raises(TypeError):
        use(state)
    assert store.asked == 0


@pytest.mark.parametrize(
    "use",
    [
        lambda: ValueState("long").get(),
        lambda: ValueState("long").set(1),
        lambda: ValueState("long").clear(),
        lambda: ListState("long").get(),
        lambda: ListState("long").append(1),
        lambda: ListState("long").set([]),
        lambda: ListState("long").set([1]),
        lambda: ListState("long").clear(),
        lambda: MapState("string", "long").get("a"),
        lambda: "a" in MapState("string", "long"),
        lambda: MapState("string", "long").set("a", 1),
        lambda: MapState("string", "long").delete("a"),
        lambda: [*MapState("string", "long").items()],
        lambda: MapState("string", "long").clear(),
    ],
)
def test_state_is_refused_outside_of_a_processor(use: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="outside of on_message"):
        use()


def test_a_type_that_is_none_is_refused() -> None:
    for bad in ("", " ", None, int):
        with pytest.raises(UsageError, match="not a type"):
            ValueState(bad)  # type: ignore[arg-type]
