"""The autosizer under loads of all kinds: whatever comes in, all checks hold, and each thing left out shows."""

from __future__ import annotations

import dataclasses

import pytest

from tests.simulation.autosizer import checks, simulator, traces
from tests.simulation.autosizer.mutants import MUTANTS

_SEEDS, _CAUGHT_WITHIN = 12, 40


@pytest.mark.parametrize("kind", traces.KINDS)
@pytest.mark.suite(cases=10)
def test_whatever_the_load_is_all_checks_hold(kind: str) -> None:
    assert _SEEDS * len(traces.KINDS) >= 200
    runs = [simulator.run(traces.made(kind, seed)) for seed in range(_SEEDS)]
    assert [found for run in runs for found in checks.broken(run)] == []


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.suite(cases=10)
def test_what_is_left_out_shows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS[name]
    mutant.apply(monkeypatch)
    seeds = ((kind, seed) for seed in range(mutant.first, mutant.first + _CAUGHT_WITHIN) for kind in mutant.kinds)
    found = (text for kind, seed in seeds for text in checks.broken(simulator.run(traces.made(kind, seed))))
    assert any(text.split(":")[0].replace("_", " ") in mutant.breaks for text in found)


@pytest.mark.long
def test_loads_bring_about_what_they_should() -> None:
    """There are rises and falls, backlogs that are cleared, jumps, and advice of each kind."""
    runs = {kind: [simulator.run(traces.made(kind, seed)) for seed in range(3)] for kind in traces.KINDS}
    changes = [change for each in runs.values() for run in each for change in run.changes]
    assert any(change.after >= 16 * change.before for change in changes)
    assert any(change.after < change.before for change in changes)
    said = {kind: " ".join(text for run in each for text in run.advice) for kind, each in runs.items()}
    assert "more partitions (it has 2)" in said["jvm"]
    assert "has a key" not in said["cores"]
    assert "the cores of a machine" in said["cores"]
    assert "#3 has" in said["hot key"]
    assert "more job.threads" in said["threads"]


def test_a_seed_is_always_the_same_run() -> None:
    first, second = (simulator.run(traces.made("wave", 3)) for _ in range(2))
    assert first.changes == second.changes
    assert first.changes


def test_a_backlog_is_cleared_nearly_as_soon_as_with_the_best_factor() -> None:
    """60,000 records of 2 ms on 2 partitions, there when the job starts at factor 1."""
    trace = dataclasses.replace(
        traces.made("backlog", 1),
        arriving=traces.constant(0.0),
        work=simulator.Work(0.002, shares=traces.even()),
        limits=traces.limits(64, target_lag_seconds=5),
        backlog=60_000.0,
        pause=1.5,
        foretold=1.5,
        delay=1,
        noise=0.05,
    )
    run, best = (
        simulator.run(trace),
        simulator.run(dataclasses.replace(trace, factor=64, limits=traces.limits(64, min=64))),
    )
    assert run.changes[0].after in {32, 64}
    took, least = (next(at for at, backlog in enumerate(each.backlogs) if backlog < 1) for each in (run, best))
    assert took <= 1.6 * least + 5, (took, least)
