"""Entries of Spark's offset log: read, edited and written back without losing what isn't ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.container.checkpoint import offset_log
from anabranch.container.checkpoint.offset_log import Entry
from anabranch.errors import DamagedError, UnsupportedFormatError
from anabranch.event_time.progress import Progress, Upstream

# As Spark 4.3 wrote it for a lane of two sources, the second not yet read.
WRITTEN = (
    "v1\n"
    '{"batchWatermarkMs":0,"batchTimestampMs":1795,"conf":{"spark.sql.shuffle.partitions":"4","a":"b=\\"c\\""}}\n'
    '{"stream": "flights", "id": "ab12", "positions": {"0": 10, "1": 0, "11": 7}}\n'
    "-"
)


def source(stream: str, **positions: int) -> dict[str, Any]:
    return {"stream": stream, "id": "x", "positions": {p.removeprefix("p"): o for p, o in positions.items()}}


def two() -> Entry:
    return Entry({"batchWatermarkMs": 5}, (source("a", p0=1, p1=2, p2=3), source("b", p0=4, p1=5)))


def test_what_spark_wrote_is_read() -> None:
    entry = offset_log.parse(WRITTEN)
    assert entry.metadata["batchTimestampMs"] == 1795
    assert entry.metadata["conf"]["a"] == 'b="c"'
    assert entry.positions(0) == {0: 10, 1: 0, 11: 7}
    assert entry.positions(1) == {}


SCALARS = st.none() | st.booleans() | st.integers() | st.text()
SOURCES = st.none() | st.fixed_dictionaries(
    {
        "stream": st.text(),
        "id": st.text(),
        "positions": st.dictionaries(st.integers(0, 99).map(str), st.integers(0, 2**63 - 1)),
    },
    optional={"later": SCALARS},
)


@given(st.dictionaries(st.text(), SCALARS | st.dictionaries(st.text(), st.text())), st.lists(SOURCES, max_size=3))
def test_what_is_written_reads_back_the_same(metadata: dict[str, Any], sources: list[dict[str, Any] | None]) -> None:
    entry = Entry(metadata, tuple(sources))
    assert offset_log.parse(offset_log.format(entry)) == entry


def test_an_entry_without_sources_is_one() -> None:
    assert offset_log.parse('v1\n{"batchWatermarkMs":0}') == Entry({"batchWatermarkMs": 0}, ())


def test_positions_of_one_source_are_replaced() -> None:
    entry = two().with_positions(1, {1: 50, 0: 40})
    assert [entry.positions(n) for n in (0, 1)] == [{0: 1, 1: 2, 2: 3}, {0: 40, 1: 50}]
    assert entry.sources[1] is not None
    assert entry.sources[1]["id"] == "x"
    assert list(entry.sources[1]["positions"]) == ["0", "1"]
    assert two().positions(1) == {0: 4, 1: 5}


def test_a_source_that_was_not_read_has_no_positions_to_replace() -> None:
    with pytest.raises(ValueError, match="source 1 has no offset"):
        offset_log.parse(WRITTEN).with_positions(1, {0: 1})


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({"a": [0, 2], "b": [1]}, [{0: 1, 2: 3}, {1: 5}]),
        ({"a": [0, 1, 2, 3], "b": [0, 1]}, [{0: 1, 1: 2, 2: 3}, {0: 4, 1: 5}]),
        ({"b": [0]}, [{}, {0: 4}]),
        ({"c": [0]}, [{}, {}]),
    ],
)
def test_only_some_partitions_are_kept(kept: dict[str, list[int]], expected: list[dict[int, int]]) -> None:
    entry = two().keeping(kept)
    assert [entry.positions(n) for n in (0, 1)] == expected
    assert entry.metadata == {"batchWatermarkMs": 5}


def test_a_source_that_was_not_read_stays_so_when_partitions_are_dropped() -> None:
    assert offset_log.parse(WRITTEN).keeping({"flights": [1]}).sources[1] is None


def test_a_batch_is_planned_in_time() -> None:
    entry = Entry({"batchWatermarkMs": 5, "batchTimestampMs": 3, "conf": {}}, two().sources)
    assert (entry.at, entry.planned_in_time().at) == (3, 5)
    assert entry.planned_in_time() == Entry({**entry.metadata, "batchTimestampMs": 5}, entry.sources)
    assert Entry({}, ()).at == 0


def test_the_watermark_is_set_and_all_else_stays() -> None:
    entry = offset_log.parse(WRITTEN)
    changed = entry.with_watermark(253402300799000)
    assert changed.metadata == {**entry.metadata, "batchWatermarkMs": 253402300799000}
    assert changed.sources == entry.sources
    assert entry.metadata["batchWatermarkMs"] == 0


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is damaged: it is empty"),
        ("v1", "is damaged"),
        ("garbage", "is damaged: it begins with 'garbage'"),
        ("v1\n{", "is damaged"),
        ("v1\n", "is damaged"),
        (WRITTEN[:-20], "is damaged"),
        ('v1\n{}\n{"stream"', "is damaged"),
    ],
)
def test_what_is_no_entry_is_refused_with_its_path(text: str, what: str) -> None:
    with pytest.raises(DamagedError) as caught:
        offset_log.parse(text, "file:/lanes/x/offsets/3")
    assert what in caught.value.what
    assert caught.value.what.startswith("file:/lanes/x/offsets/3 ")
    assert caught.value.cure


def test_an_entry_of_another_spark_is_not_taken_for_damage() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"offsets/3 is not .* it begins with 'v2'\n  .*another Spark"):
        offset_log.parse("v2\n{}\n-", "file:/lanes/x/offsets/3")


@given(st.integers(0, len(WRITTEN) - 1))
def test_a_file_cut_short_is_never_taken_for_another_batch(at: int) -> None:
    whole = offset_log.parse(WRITTEN)
    try:
        entry = offset_log.parse(WRITTEN[:at])
    except DamagedError:
        return
    # Cut at a line's end it holds fewer sources, each of them whole.
    assert entry.metadata == whole.metadata
    assert entry.sources == whole.sources[: len(entry.sources)]
    assert json.loads(json.dumps(entry.metadata)) == entry.metadata


def test_event_time_stands_beside_the_streams() -> None:
    now = Progress(5, {"embedded/a/0": 9}, {"embedded/i/0": Upstream(3, {"l": 4, "m": None}, {"k": frozenset()})})
    entry = Entry({}, (source("a", p0=1), now.to_builtins(), None))
    read = offset_log.parse(offset_log.format(entry))
    assert read.progress() == now
    assert read.streams() == {"a": 0}
    assert read.keeping({"a": []}).progress() == now
    assert two().progress() is None


@pytest.mark.parametrize("topic", ["stream", "positions", "source", "id"])
def test_a_topic_may_be_called_as_the_fields_of_our_offsets_are(topic: str) -> None:
    entry = offset_log.parse("\n".join(["v1", "{}", json.dumps({topic: {"0": 5}})]))
    assert entry.streams() == {topic: 0}
    assert entry.positions(0) == {0: 5}
    assert entry.with_positions(0, {0: 6}).positions(0) == {0: 6}


def test_only_topics_have_other_names_in_the_job() -> None:
    text = "\n".join(["v1", "{}", json.dumps(source("flights", p0=5)), json.dumps({"flights": {"0": 7, "1": 8}})])
    entry = offset_log.parse(text, streams_by_topic={"flights": "flights-kafka"})
    assert entry.streams() == {"flights": 0, "flights-kafka": 1}
    kept = entry.keeping({"flights": [0], "flights-kafka": [1]})
    assert [kept.positions(n) for n in (0, 1)] == [{0: 5}, {1: 8}]
    assert kept.with_positions(1, {1: 9}).streams() == entry.streams()
    assert offset_log.format(entry) == text
