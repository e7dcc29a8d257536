"""``limit_per_key``: which rows pass, what the store is asked, and where it may stand."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Job, Stream, Timers, tumbling
from anabranch.api.first_rows import FirstRows
from anabranch.api.journal import Journal
from anabranch.errors import GraphError
from anabranch.planning import groups, stages
from tests.unit.api.stored import TIMED, Counts, Store, read


class Limited:
    """A ``limit_per_key(n)`` at work on the batches of a lane. Only the state goes from one batch to the next."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.stores: dict[str, Store] = {}

    def passed(self, batch: list[dict[str, Any]], rejected: int | None = None) -> list[dict[str, Any]]:
        """The rows that pass of those of one key. ``rejected``: the number of the row that fails when it has passed."""
        processor, journal = FirstRows(self.n), Journal()
        processor.passed = FirstRows.passed.bound(self.stores.setdefault(batch[0]["k"], Store()), journal)
        rows: list[dict[str, Any]] = []
        for message in batch:
            journal.begin()
            given_on = list(processor.on_message(message, Timers(None, None, journal)))
            if message["number"] == rejected:
                journal.take_back()
            else:
                rows += given_on
        processor.passed.flush()
        return rows


@given(st.integers(1, 5), st.lists(st.lists(st.sampled_from("abc"), max_size=8), max_size=6))
def test_a_limit_passes_the_first_rows_of_each_key(n: int, batches: list[list[str]]) -> None:
    """However many batches they come in."""
    limited, number = Limited(n), count()
    came: dict[str, list[dict[str, Any]]] = {}
    passed: dict[str, list[dict[str, Any]]] = {}
    for batch in batches:
        rows = [{"k": key, "number": next(number)} for key in batch]
        for key in sorted(set(batch)):
            own = [row for row in rows if row["k"] == key]
            came.setdefault(key, []).extend(own)
            passed.setdefault(key, []).extend(limited.passed(own))
    assert passed == {key: rows[:n] for key, rows in came.items()}
    assert {key: store.value for key, store in limited.stores.items()} == {
        key: len(rows) for key, rows in passed.items()
    }


def test_a_row_that_becomes_a_dead_letter_is_not_counted_by_a_limit() -> None:
    limited = Limited(2)
    rows = [{"k": "a", "number": number} for number in range(4)]
    assert limited.passed(rows, rejected=0) == rows[1:3]


def test_a_limit_asks_the_store_once_for_a_batch_of_a_key() -> None:
    limited = Limited(2)
    limited.passed([{"k": "a", "number": number} for number in range(100)])
    assert limited.stores["a"].asked == 2  # read, and written
    limited.passed([{"k": "a", "number": number} for number in range(100)])
    assert limited.stores["a"].asked == 3


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (read, "process 'limit-per-key' .* keeps state but has no stage key"),
        (lambda job: read(job, key="k string").agg(n="count(*)"), "comes after agg 'agg' in one stage"),
        (lambda job: read(job, key="k string").limit_per_key(3), "comes after process 'limit-per-key' in one stage"),
    ],
)
def test_a_limit_needs_a_stage_key_of_its_own(make: Callable[[Job], Stream], said: str) -> None:
    job = Job("j")
    make(job).limit_per_key(1).write("out")
    (stage,) = stages.cut(job.graph)
    with pytest.raises(GraphError, match=said):
        groups.cut(job.graph, stage, {"out": "embedded"})


def test_rows_have_the_stage_key_and_no_event_time_behind_a_limit() -> None:
    job = Job("j")
    limited = read(job, key="k string", **TIMED).limit_per_key(1)
    limited.window(tumbling("1 hour")).agg(n="count(*)").write("out")
    (stage,) = stages.cut(job.graph)
    assert stages.key_columns(job.graph, stage)[1].columns == ("k",)
    assert stages.event_times(job.graph)[1].lost.endswith("gives rows of its own, which have no event time")


def test_state_after_state_needs_a_stage_of_its_own() -> None:
    job = Job("j")
    read(job, key="k string").agg(n="count(*)").process(Counts(), name="p").write("out")
    (stage,) = stages.cut(job.graph)
    with pytest.raises(GraphError, match=r"process 'p' .* comes after agg 'agg' in one stage"):
        groups.cut(job.graph, stage, {"out": "embedded"})
