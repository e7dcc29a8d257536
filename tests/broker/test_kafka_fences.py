"""Fences of slots in Kafka: writers that freeze, wake or alternate never write after one."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from anabranch.errors import AnabranchError, FencedError, StateError
from anabranch.systems.kafka import markers
from anabranch.systems.kafka.holder import Holder
from anabranch.systems.kafka.markers import Marker, Markers
from anabranch.systems.kafka.transactions import fence
from tests.broker.slots import Place, fresh_process, marker, records, servers, spread

__all__ = ["fresh_process", "servers"]  # fixtures

pytestmark = pytest.mark.integration


def test_a_frozen_writer_that_wakes_after_the_fence_stops_for_good(servers: str) -> None:
    place = Place(servers)
    place.write(0, ["a"])
    frozen = place.opened(1, ["never"])
    assert place.held_up
    assert place.fence(2)[0].batch == 0
    assert not place.held_up, "the fence ends open transactions"
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        frozen.commit()
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        place.write(1, ["never"])
    assert place.markers()[0] == marker(place, 0, batch=0, rows=1, epoch=2)
    place.write(1, ["b"], epoch=2)
    assert place.seen() == ["a", "b"]


def test_a_frozen_writer_that_goes_on_writing_after_the_fence_stops_for_good(servers: str) -> None:
    place = Place(servers)
    frozen = place.opened(0, ["never"])
    place.fence(2)
    frozen.write(place.topic, *spread(records(["never 2"])))
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        frozen.commit()
    place.write(0, ["a"], epoch=2)
    assert place.seen() == ["a"]


def test_a_zombie_that_opens_a_slot_stops_and_the_rightful_writer_recovers(servers: str) -> None:
    place = Place(servers)
    place.fence(2)
    rightful = place.opened(0, ["a"], epoch=2)
    with pytest.raises(FencedError, match="epoch 2 has taken over"):
        place.write(0, ["never"], epoch=1)
    with pytest.raises(AnabranchError, match="another worker took over slot 0") as caught:
        rightful.commit()
    assert not isinstance(caught.value, FencedError)
    assert not place.write(0, ["a"], epoch=2)
    assert place.seen() == ["a"]


def test_a_fence_goes_on_until_its_own_marker_is_committed(servers: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(servers)
    place.write(0, ["a"])
    zombies: list[Holder] = []
    read_markers = Markers.read

    def read_and_be_fenced(self: Markers, slots: Iterable[int], timeout: float = 30.0) -> dict[int, Marker | None]:
        found = read_markers(self, slots, timeout)
        if len(zombies) < 3:
            zombies.append(Holder(place.settings, f"{self.group}.0"))
        return found

    monkeypatch.setattr(Markers, "read", read_and_be_fenced)
    fenced = place.fence(2)
    assert len(zombies) == 3
    monkeypatch.undo()
    assert place.markers() == fenced == {0: marker(place, 0, batch=0, rows=1, epoch=2, instance=fenced[0].instance)}


def test_a_lane_that_was_closed_stays_so(servers: str) -> None:
    place = Place(servers, slots=2)
    place.write(0, ["a"])
    for closed in (True, True, False):
        assert [each.closed for each in place.fence(2, closed=closed).values()] == [True, True]
    for epoch in (1, 2, 3):
        with pytest.raises(FencedError, match="epoch 2 has taken over" if epoch == 1 else "it is closed"):
            place.write(1, ["never"], epoch=epoch)
    assert place.seen() == ["a"]


def test_a_lane_that_was_closed_may_write_again_once_it_takes_its_slots(servers: str) -> None:
    """Whoever had opened a slot before is stopped by the closing; what was committed by then is known from it."""
    place = Place(servers, slots=2)
    place.write(0, ["a"], slot=1)
    zombie = place.opened(5, ["never"])
    its = place.settings, place.job, place.lane, "out", place.slots
    assert markers.peeked(*its) == 0
    assert [each.batch for each in fence(*its, 1, new=False, closed=True).values()] == [-1, 0]
    with pytest.raises(FencedError, match="it is closed"):
        zombie.commit()
    with pytest.raises(FencedError, match="it is closed"):
        place.write(5, ["never"])
    assert not any(each.closed for each in fence(*its, 1, new=False, opens=True).values())
    place.write(5, ["b"])
    assert place.seen() == ["a", "b"]


def test_an_older_fence_is_refused(servers: str) -> None:
    place = Place(servers, epoch=3)
    with pytest.raises(FencedError, match="epoch 3 has taken over"):
        place.fence(2)
    assert place.markers()[0] == marker(place, 0, batch=-1, epoch=3)


def test_the_start_of_a_new_lane_may_be_repeated_until_its_first_batch(servers: str) -> None:
    place = Place(servers, slots=2)
    place.fence(1, new=True)
    place.slots = range(3)  # the first start was killed after two of three slots
    place.fence(2, new=True)
    place.write(0, ["a"], slot=1, epoch=2)
    with pytest.raises(StateError, match="is new, but its slot 1 in Kafka holds batch 0"):
        place.fence(3, new=True)
    assert sorted(place.fence(3)) == [0, 1, 2]


def test_a_lost_marker_is_an_error_and_never_not_done(servers: str) -> None:
    place = Place(servers)
    place.write(0, ["a"])
    group = markers.group_id("anabranch", place.job, place.lane, "out")
    assert place.admin.delete_consumer_groups([group])[group].result() is None  # as an expiry does
    assert place.markers() == {0: None}
    for again in range(2):  # with a kept producer, and without
        with pytest.raises(StateError, match="has no marker in Kafka"):
            place.write(again, ["never"])
    with pytest.raises(StateError, match="has no marker in Kafka"):
        place.fence(2)
    assert place.seen("read_uncommitted") == ["a"]
