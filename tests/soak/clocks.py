"""Clocks that are set while a job runs, or differ between machines: by an hour, a day, a year; and the hour that is
left out or comes twice where clocks are changed in spring and autumn."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.acceptance.harness import INPUT, PARTITIONS, Process, Workspace, record_batch
from tests.jobs import JOBS
from tests.soak import autoscaled
from tests.soak.served import GRACE, JOB, LEASE, Served, ended_well, seat_of
from tests.support.calm import until_calm
from tests.support.set_clock import SetClock

__all__ = ["clocks", "clocks_in_kafka", "containers_apart", "scaled_by_itself", "windows"]

HOUR, DAY = 3600, 86_400
YEAR = 365 * DAY
MOVES = (-HOUR, -DAY, 0, YEAR, 0)
"""Where a clock is set to, one after the other, in seconds ahead of the machine's."""
LEAPS = (datetime(2027, 3, 28, 1, tzinfo=UTC), datetime(2027, 10, 31, 1, tzinfo=UTC))
"""In Berlin it is 3:00 after 1:59:59, and 2:00 again after 2:59:59."""
RECORDS = 40
BEFORE = timedelta(seconds=4)
"""Records come so long before a leap, and after it."""


class Ticking:
    """The job ``ticking``, in processes that go by a clock that is set."""

    def __init__(self, place: Workspace) -> None:
        size = {"job__target_batch_seconds": 4.0}  # sized by time, which must not be that of the clock
        self.workspace = Workspace(
            place.folder, place.cluster, JOBS / "ticking.py", patience=place.patience, **{**place.settings, **size}
        )
        self.clock = SetClock(place.folder, "its")
        self.workspace.system.create("in", PARTITIONS)
        self._put = 0
        self.slowest = 0.0

    def start(self) -> Process:
        # Where clocks are changed twice a year; all times of a job are UTC.
        return self.workspace.start("run", "ticking.py", env={**self.clock.env, "TZ": "Europe/Berlin"})

    def pass_through(self, process: Process) -> None:
        self.put()
        self.await_all(process)

    def put(self) -> None:
        values = [b'{"n": 1}'] * RECORDS
        self.workspace.append("in", record_batch([f"k{n}".encode() for n in range(RECORDS)], values))
        self._put += RECORDS

    def await_all(self, process: Process) -> None:
        """Wait until all records have come out in windows, each once."""
        begun = time.monotonic()
        process.until(f"{self._put} records in windows", lambda: self._counted().total() >= self._put)
        self.slowest = max(self.slowest, time.monotonic() - begun)
        found = self._counted()
        assert set(found.values()) == {self._put // RECORDS}, found
        assert found.total() == self._put

    def _counted(self) -> Counter[bytes | None]:
        """The records that came out, by key. No window comes twice, and each has its size."""
        found: Counter[bytes | None] = Counter()
        seen = set()
        if "out" in self.workspace.system.streams():
            for key, value in self.workspace.contents("out"):
                start, end = (datetime.fromisoformat(value[name]) for name in ("window_start", "window_end"))
                assert end - start == timedelta(seconds=1), value
                assert (key, start) not in seen, f"a window of {key!r} came out twice: {value}"
                seen.add((key, start))
                found[key] += value["c"]
        return found


def windows(seed: int, workspace: Workspace, moves: Sequence[int] | None = None) -> str:
    """Windows of processing time: no record is lost, comes out twice or is held up, whatever the clock does; nor where
    another machine goes on whose clock is behind."""
    dice = random.Random(seed)
    if moves is None:
        moves = MOVES if seed == 0 else dice.choices([-YEAR, -DAY, -HOUR, -7, 0, 61, DAY, YEAR], k=6)
    ticking = Ticking(workspace)
    process = ticking.start()
    process.until("a lane", ticking.workspace.lanes.exists)
    ticking.pass_through(process)
    for ahead in moves:
        ticking.clock.set(ahead)
        if workspace.cluster is not None and ahead > HOUR:
            _refused(ticking, process)
        ticking.pass_through(process)
    if min(moves, default=0) < 0:
        assert "the clock of this machine is behind" in process.stderr, process.stderr
    for leap in LEAPS if workspace.cluster is None else ():
        ticking.clock.set_to(leap - BEFORE)
        ticking.pass_through(process)
        time.sleep(BEFORE.total_seconds())
        ticking.pass_through(process)
    ended(process)
    ticking.clock.set(-HOUR)
    process = ticking.start()
    ticking.pass_through(process)
    ended(process)
    return f"set to {[*moves]} and over leaps; the slowest portion took {ticking.slowest:.1f} s"


def _refused(ticking: Ticking, process: Process) -> None:
    """Kafka takes no record that is over an hour ahead of its own clock: the job waits until the clock is right."""
    ticking.put()
    waits = "been waiting for timestamps that Kafka accepts"
    process.until("a wait", lambda: waits in ticking.workspace.call("status", ticking.workspace.job).stdout)
    ticking.clock.set(0)
    ticking.await_all(process)


def ended(process: Process) -> None:
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0, process.stderr


def containers_apart(seed: int, workspace: Workspace, moves: Sequence[int] = MOVES) -> str:
    """Two containers whose clocks are an hour apart, and their coordinator's is set: no seat is lost by it, and outputs
    are exact. Then one is killed, and the seat is taken once its lease is over."""
    dice = random.Random(seed)
    clock = SetClock(workspace.folder, "coordinator")
    theirs = [SetClock(workspace.folder, f"container-{number}", ahead) for number, ahead in enumerate((0, HOUR))]
    workspace.environment |= clock.env
    portion = 400
    served = Served(workspace, count=portion, seed=seed, later=portion * (2 * len(moves) + 2))
    served.start(for_good=True, job__containers=2)
    both = [workspace.start("container", JOB, "--coordinator", served.url, env=its.env) for its in theirs]
    for each in both:
        each.until("its seat", lambda each=each: seat_of(each) is not None)
    for ahead in moves:
        _feed(served, portion, both[0])
        clock.set(ahead)
        _for_a_lease(served, both)
        dice.choice(theirs).set(dice.choice(moves))
        _feed(served, portion, both[0])
        _for_a_lease(served, both)
    lost = [event for event in _events(served) if "lost its seat" in event["what"]]
    assert not lost, lost

    third = workspace.start("container", JOB, "--coordinator", served.url, env=dice.choice(theirs).env)
    third.until("it stands by", lambda: "standing by" in third.stderr)
    begun = time.monotonic()
    both.pop(dice.randrange(2)).kill()
    clock.set(dice.choice([-DAY, DAY]))
    third.until("its seat", lambda: seat_of(third) is not None)
    seconds = time.monotonic() - begun
    _check_went_by_it(_events(served), DAY)
    assert seconds >= LEASE - 1.5, f"it took the seat after {seconds:.1f} s, with a lease of {LEASE} s"
    _feed(served, portion, third)
    until_calm(workspace.client(served.url), JOB, workspace.whole_ends(INPUT), third.until)
    workspace.call("stop", JOB, coordinator__url=served.url)
    for each in (*both, third):
        ended_well(each)
    workspace.check_outputs(served.flights)
    served.end()
    return f"the coordinator's clock was set {len(moves)} times; a seat was taken {seconds:.1f} s after a kill"


def _feed(served: Served, portion: int, process: Process) -> None:
    """Put some more, and wait until stage 0 has read all."""
    some = served.later[:portion]
    del served.later[:portion]
    served.workspace.put(some)
    served.flights += some
    process.until("these records", lambda: served.workspace.read("0-") >= len(served.flights))


def _for_a_lease(served: Served, processes: Sequence[Process]) -> None:
    """Longer than a lease; all must live."""
    end = time.monotonic() + LEASE + 2 * GRACE
    while time.monotonic() < end:
        for each in (served.coordinator, *processes):
            assert not each.ended, each.stderr
        time.sleep(0.2)


def _events(served: Served) -> list[Any]:
    found: list[Any] = json.loads(served.workspace.call("events", JOB, "--json", coordinator__url=served.url).stdout)
    return found


def scaled_by_itself(seed: int, workspace: Workspace) -> str:
    """As :func:`autoscaled.scaled_by_itself`, while the clock is set under load and after it: nothing is different."""
    dice = random.Random(seed)
    clock = SetClock(workspace.folder, "its")
    workspace.environment |= clock.env
    events: list[dict[str, Any]] = []
    told = autoscaled.scaled_by_itself(
        seed, workspace, lambda: clock.set(dice.choice([-DAY, -HOUR, HOUR, YEAR])), events
    )
    _check_went_by_it(events, HOUR)
    return told


def _check_went_by_it(events: Sequence[dict[str, Any]], ahead: int) -> None:
    """A clock must have been set for whoever noted these events, or the scenario shows nothing."""
    assert any(abs(event["at"] - time.time()) > ahead / 2 for event in events), events


CASES: tuple[Callable[[int, Workspace], str], ...] = (windows, containers_apart, scaled_by_itself)


def clocks(seed: int, workspace: Workspace) -> str:
    """One of them, by seed."""
    return CASES[seed % len(CASES)](seed // len(CASES), workspace)


def clocks_in_kafka(seed: int, workspace: Workspace) -> str:
    """The same, but for the one whose streams are always of the embedded log."""
    return CASES[seed % 2](seed // 2, workspace)
