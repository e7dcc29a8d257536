"""Markers read back as they were written, foreign ones are refused, and a fence follows what it finds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import AnabranchError, FencedError, StateError, UnsupportedFormatError
from anabranch.systems.kafka import fencing, markers
from anabranch.systems.kafka.markers import Marker

MARKER = Marker(lane="1-0a1b2c3d", batch=4, epoch=7, instance="i", rows=30)

names = st.text(min_size=1, max_size=40)
counts = st.integers(0, 2**62)


@given(
    st.builds(
        Marker,
        lane=names,
        lineage=st.none() | names,
        batch=st.integers(-1, 2**62),
        epoch=counts,
        instance=names,
        closed=st.booleans(),
        rows=counts,
        extra=st.just(msgspec.UNSET),
    )
)
def test_a_marker_reads_back_as_it_was_written(marker: Marker) -> None:
    offset, metadata = markers.encode(marker)
    assert offset == marker.batch + 1 >= 0
    assert markers.decode(offset, metadata) == marker


def test_the_written_form() -> None:
    assert markers.encode(MARKER) == (
        5,
        '{"v":1,"lane":"1-0a1b2c3d","batch":4,"epoch":7,"instance":"i","closed":false,"rows":30}',
    )


def test_fields_of_a_newer_program_are_kept() -> None:
    offset, metadata = markers.encode(MARKER)
    newer = markers.decode(offset, metadata[:-1] + ',"zone":"r0"}')
    assert newer.extra == {"zone": "r0"}
    _, again = markers.encode(msgspec.structs.replace(newer, epoch=8))
    assert msgspec.json.decode(again)["zone"] == "r0"


def test_another_format_is_refused() -> None:
    with pytest.raises(UnsupportedFormatError, match="version 2"):
        markers.decode(5, '{"v":2,"lane":"1-0a1b2c3d"}')


@pytest.mark.parametrize(
    ("offset", "metadata"),
    [
        pytest.param(5, "", id="offsets were reset by a tool"),
        pytest.param(5, None, id="no metadata"),
        pytest.param(5, "not JSON", id="not JSON"),
        pytest.param(5, '{"v":' + "[" * 2000, id="deeply nested"),
        pytest.param(5, '["v"]', id="no object"),
        pytest.param(5, '{"lane":"1-0a1b2c3d"}', id="no version"),
        pytest.param(5, '{"v":1,"lane":"1-0a1b2c3d"}', id="fields are missing"),
        pytest.param(6, markers.encode(MARKER)[1], id="the offset is another batch's"),
    ],
)
def test_what_is_no_marker_is_refused(offset: int, metadata: str | None) -> None:
    with pytest.raises(StateError, match="is not a marker"):
        markers.decode(offset, metadata)


def test_a_marker_that_brokers_would_refuse_is_not_offered() -> None:
    fitting = len(markers.encode(MARKER)[1]) + 2
    markers.encode(msgspec.structs.replace(MARKER, lineage="é" * ((4096 - fitting - len('"lineage":')) // 2 - 1)))
    with pytest.raises(AnabranchError, match="bytes; Kafka takes 4096"):
        markers.encode(msgspec.structs.replace(MARKER, lineage="é" * 2048))


def test_names() -> None:
    assert markers.topic("delays") == "delays-markers"
    assert markers.group_id("anabranch", "delays", "1-0a1b2c3d", "late") == "anabranch.delays.1-0a1b2c3d.late"
    assert markers.transactional_id("a", "delays", "1-0a1b2c3d", "late", 3) == "a.delays.1-0a1b2c3d.late.3"


@pytest.mark.parametrize(
    ("group", "lane"),
    [
        ("anabranch.delays.1-0a1b2c3d.late", "1-0a1b2c3d"),
        ("anabranch.delays.window-2-0a1b2c3d.by.dest", "window-2-0a1b2c3d"),
        ("anabranch.delays.1-0a1b2c3d", None),
        ("anabranch.delays.1-0a1b2c3.late", None),
        ("anabranch.delays.1", None),
        ("anabranch.delays.more.1-0a1b2c3d.late", None),
        ("anabranch.delays2.1-0a1b2c3d.late", None),
        ("other.delays.1-0a1b2c3d.late", None),
        ("anabranchXdelays.1-0a1b2c3d.late", None),
    ],
)
def test_a_group_names_its_lane(group: str, lane: str | None) -> None:
    assert markers.lane_of(group, "anabranch", "delays") == lane


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("was_closed", [False, True])
@pytest.mark.parametrize("opens", [False, True])
@pytest.mark.parametrize("epoch", [7, 8])
def test_a_fence_keeps_what_the_slot_wrote(epoch: int, opens: bool, was_closed: bool, closed: bool) -> None:
    found = msgspec.structs.replace(MARKER, closed=was_closed, lineage="1-ffffffff", extra={"zone": "r0"})
    after = successor(found, epoch, new=False, closed=closed, opens=opens)
    stays = was_closed and not opens
    assert after == msgspec.structs.replace(found, epoch=epoch, instance="mine", closed=stays or closed)


def test_the_first_fence_of_a_lane() -> None:
    first = Marker(lane="1-0a1b2c3d", batch=-1, epoch=7, instance="mine")
    assert successor(None, 7, new=True) == first
    assert successor(first, 8, new=True) == msgspec.structs.replace(first, epoch=8)


def test_what_a_fence_refuses() -> None:
    with pytest.raises(FencedError, match=r"epoch 6, must not write .* slot 3: epoch 7 has taken over"):
        successor(MARKER, 6, new=False)
    with pytest.raises(FencedError, match="epoch 7 has taken over"):
        successor(MARKER, 6, new=True)
    with pytest.raises(StateError, match="is new, but its slot 3 in Kafka holds batch 4"):
        successor(MARKER, 8, new=True)
    with pytest.raises(StateError, match="slot 3 of lane 1-0a1b2c3d of delays has no marker") as caught:
        successor(None, 8, new=False)
    assert "while the job was stopped or the lane had failed" in caught.value.what


def successor(found: Marker | None, epoch: int, *, new: bool, closed: bool = False, opens: bool = False) -> Marker:
    return fencing.successor(found, "delays", "1-0a1b2c3d", 3, epoch, "mine", new=new, closed=closed, opens=opens)
