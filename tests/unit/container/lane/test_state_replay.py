"""How long a successor replays changes of state, as a lane estimates it from its batches."""

from __future__ import annotations

from anabranch.container.lane.state_replay import StateReplay
from anabranch.spark.query.history import CompletedBatch


def batch(number: int, changes: int = 0, replayed: float = 0.0, snapshot: int | None = 0) -> CompletedBatch:
    return CompletedBatch(number, 10, 1.0, 0, state_changes=changes, replay_seconds=replayed, snapshot=snapshot)


def test_what_came_since_the_last_snapshot_is_replayed() -> None:
    its = StateReplay(2)
    assert its.seconds == 0.0
    for number in range(4):
        its.ran(batch(number, 1_000_000))
    assert its.seconds == 4 * 5.0 / 2
    its.ran(batch(4, 200_000, snapshot=3))  # the changes of batches 0 to 2 are in it
    assert its.seconds == (5.0 + 1.0) / 2
    its.ran(batch(5, 0, snapshot=5))
    assert its.seconds == 0.0


def test_what_a_lane_has_replayed_itself_is_replayed_again_until_there_is_a_snapshot() -> None:
    its = StateReplay(4)
    its.ran(batch(20, 100, replayed=24.0))
    assert round(its.seconds, 2) == 6.0
    its.ran(batch(21, 0))
    assert round(its.seconds, 2) == 6.0
    its.ran(batch(22, 0, snapshot=21))
    assert its.seconds == 0.0


def test_state_that_is_loaded_anew_says_how_long_it_takes() -> None:
    its = StateReplay(1)
    its.ran(batch(0, 1_000_000))
    its.ran(batch(1, 0, replayed=2.0))
    assert its.seconds == 2.0


def test_without_snapshots_it_stays_small_and_without_news_of_them_it_is_left_out() -> None:
    its = StateReplay(1)
    for number in range(5000):
        its.ran(batch(number, 1000))
    assert round(its.seconds, 2) == 25.0
    its.ran(batch(5000, 0, snapshot=4500))
    assert round(its.seconds, 2) == 2.5
    for number in range(5001, 5100):
        its.ran(batch(number, 1000, snapshot=None))
    assert its.seconds == 0.0
