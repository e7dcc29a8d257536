"""Whether a batch may still be broken off: by the time that a gate is shut, either all is seen or nothing ever is."""

from __future__ import annotations

import threading
import time

import pytest

from anabranch.spark.query.gate import BrokenOffError, Gate


def test_shut_before_anything_is_seen_nothing_ever_is() -> None:
    gate = Gate()
    gate.begins(3)
    assert gate.shut() == ""
    for step in (gate.check, lambda: gate.passes("is being published", exact=True), lambda: gate.begins(4)):
        with pytest.raises(BrokenOffError):
            step()


@pytest.mark.parametrize(
    ("passed", "duplicates", "kept_by"),
    [
        ([("is being published", True)], False, "is being published"),
        ([("is being published", True)], True, "is being published"),
        ([("is written", False)], False, "is written"),
        ([("is written", False)], True, ""),
        ([("is written", False), ("is being published", True)], True, "is being published"),
        ([], False, ""),
    ],
)
def test_what_is_seen_keeps_it_open(passed: list[tuple[str, bool]], duplicates: bool, kept_by: str) -> None:
    gate = Gate()
    gate.begins(3)
    for what, exact in passed:
        gate.passes(what, exact=exact)
    assert gate.shut(duplicates=duplicates) == kept_by
    if kept_by:
        gate.passes("what follows", exact=True)
    else:
        with pytest.raises(BrokenOffError):
            gate.check()


def test_nothing_is_seen_of_the_next_batch() -> None:
    now = [10.0]
    gate = Gate(clock=lambda: now[0])
    gate.begins(3)
    gate.passes("is being published", exact=True)
    now[0] = 20.0
    gate.begins(4)
    now[0] = 22.5
    assert (gate.number, gate.seconds, gate.shut()) == (4, 2.5, "")


def test_threads_that_race_for_it_agree() -> None:
    """Of each batch either what was published was told to who shut the gate, or it was never published."""
    outcomes = set()
    for turn in range(400):
        gate, published = Gate(), []
        gate.begins(turn)
        barrier = threading.Barrier(2)

        def publish(gate: Gate = gate, published: list[str] = published, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            try:
                gate.passes("is being published", exact=True)
            except BrokenOffError:
                return
            time.sleep(0)
            published.append("all")

        thread = threading.Thread(target=publish)
        thread.start()
        barrier.wait()
        if turn % 2:
            time.sleep(0.0001)
        kept_by = gate.shut()
        thread.join()
        assert bool(kept_by) == bool(published)
        outcomes.add(bool(kept_by))
    assert outcomes == {True, False}


def test_what_fails_as_it_was_broken_off_is_told_in_a_few_words() -> None:
    gate = Gate()
    gate.begins(0)
    with pytest.raises(ValueError, match="its own"), gate.quietly():
        raise ValueError("its own")
    gate.shut()
    with pytest.raises(BrokenOffError) as told, gate.quietly():
        raise ValueError("x" * 100_000)
    assert told.value.__suppress_context__
    assert len(str(told.value)) < 100
