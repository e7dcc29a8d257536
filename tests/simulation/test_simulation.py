"""The control plane under faults: all invariants hold, a seed says all, and each broken step of the protocol shows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.simulation import mutants, running

_SEEDS, _MORE, _BLOCK = 100, 2000, 100
_CAUGHT_WITHIN = 200
_SELDOM_SEEN = {
    "forget_to_copy",
    "lane_drains_on",
    "lane_ends_when_its_drain_is_cancelled",
    "lane_takes_any_folder_for_its_own",
    "reseat_under_the_same_epoch",
    "undo_what_has_run",
}
"""Mutants that only one seed in some 60 or more shows."""


@pytest.mark.parametrize(
    "first",
    [
        *range(0, _SEEDS, _BLOCK),
        *(pytest.param(first, marks=pytest.mark.long) for first in range(_SEEDS, _MORE, _BLOCK)),
    ],
)
def test_whatever_goes_wrong_all_invariants_hold(first: int) -> None:
    broken = {seed: found for seed in range(first, first + _BLOCK) if (found := running.run(seed)[1]) is not None}
    assert not broken, f"look at one: python -m tests.simulation --seed {min(broken)}"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long) if name in _SELDOM_SEEN else name for name in mutants.NAMES]
)
@pytest.mark.suite(cases=10)
def test_a_broken_step_of_the_protocol_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = mutants.load(name)
    mutant.apply(monkeypatch)
    first = getattr(mutant, "FIRST", 0)
    broken = (running.run(seed)[1] for seed in range(first, first + _CAUGHT_WITHIN))
    assert any(found is not None and found.name in mutant.BREAKS for found in broken)


@pytest.mark.long
def test_faults_reach_what_they_should() -> None:
    told = [what for seed in range(70) for _, _, what in running.run(seed)[0]]
    for part in (
        "frozen for",
        "held for",
        "ends: killed",
        "is asked to end",
        "the network is cut",
        "of all messages",
        "has no store",
        "its answer is lost",
        "stands by",
        "fenced ",
        "is refused batch",
        "skips batch",
        "can't be fenced yet",
        "sent no heartbeat for",
        "to have factor",
        "to be rewound to",
        "running → changing",
        "changing → running",
        "to drain deployment 2",
        "running → draining",
        "draining → running",
        "draining → drained",
        "whose drain was cancelled",
        "ends the time of",
        "finishes",
        "with a pending batch",
        "fails, and is tried again",
        "can't start",
        "has 4 partitions instead of 2",
        "cancelled: the user",
        "cancelled: lane",
        "their seat no longer exists",
        "the watchdog",
    ):
        assert any(part in what for what in told), part


def test_a_seed_is_the_same_run_in_every_process() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-m", "tests.simulation", "--seed", "46"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert told[0].count(b"\n") > 100
