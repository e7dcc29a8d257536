"""An election under a clock that is moved by hand, and processes that are paused wherever they wait for the store."""

from __future__ import annotations

import contextlib
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from anabranch.coordinator.leadership.election import Election
from anabranch.coordinator.store import LeaderRecord, Store
from anabranch.errors import NotLeadingError, StoreUnavailableError
from tests.unit.coordinator.helpers import Clock

LEASE, GRACE, STEP = 10.0, 2.0, 1.0
A, B = "http://a:1", "http://b:2"


@dataclass
class Row:
    """The leader's row, as a store keeps it: ``test_leading`` shows that both databases do."""

    record: LeaderRecord | None = None


@dataclass
class Candidate:
    """A thread that goes on when it is told to, up to the next time it pauses: before and after each call."""

    row: Row
    clock: Clock
    holder: str
    chance: random.Random
    epoch: int = 0
    steps: int = 0
    broken: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._go, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._ends = False
        self.faults = 0.1
        self.election = Election(cast(Store, self), self.holder, self.clock, LEASE, GRACE)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go_on(self) -> None:
        self._go.release()
        self._paused.acquire()
        assert not self.broken, self.broken

    def end(self) -> None:
        self._ends = True
        self._go.release()
        self._thread.join()

    # What an election calls

    def stand_by(self) -> None:
        pass

    def leader(self) -> LeaderRecord | None:
        return cast("LeaderRecord | None", self._call(lambda: self.row.record))

    def claim(self, seen: LeaderRecord | None, holder: str) -> bool:
        def act() -> bool:
            if self.row.record != seen:
                return False
            self.epoch = 1 if seen is None else seen.epoch + 1
            self.row.record = LeaderRecord(epoch=self.epoch, holder=holder, beat=0)
            return True

        return bool(self._call(act))

    def renew(self) -> None:
        self._call(lambda: self._beat(1))

    def resign(self) -> None:
        self._call(lambda: self._beat(None))

    # How

    def _beat(self, more: int | None) -> None:
        held = self.row.record
        if held is None or held.epoch != self.epoch:
            raise NotLeadingError("deposed")
        beat = -1 if more is None else held.beat + more
        self.row.record = LeaderRecord(epoch=held.epoch, holder=held.holder, beat=beat)

    def _call(self, act: Callable[[], Any]) -> Any:
        self._fault()
        self._pause()
        done = act()
        self._pause()
        self._fault()  # done, and the answer is lost
        return done

    def _fault(self) -> None:
        if self.chance.random() < self.faults:
            raise StoreUnavailableError("away")

    def _pause(self) -> None:
        self._paused.release()
        self._go.acquire()
        if self._ends:
            raise SystemExit

    def _run(self) -> None:
        try:
            self._go.acquire()
            while not self._ends:
                if self.election.leads and self.chance.random() < 0.02:
                    self._resign()
                else:
                    self.election.step()
                self.steps += 1
                self._pause()
        except SystemExit:
            pass
        except BaseException as error:
            self.broken.append(error)
            self._paused.release()

    def _resign(self) -> None:
        with contextlib.suppress(StoreUnavailableError):
            self.election.resign()


def alone(candidates: list[Candidate]) -> list[str]:
    leading = [one.holder for one in candidates if one.election.leads]
    assert len(leading) <= 1, f"{leading} lead at once"
    return leading


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.suite(cases=20)
def test_no_two_lead_at_once_and_one_does_soon(seed: int) -> None:
    chance = random.Random(seed)
    row, clock = Row(), Clock()
    candidates = [Candidate(row, clock, f"http://{n}", chance) for n in range(3)]
    led: set[str] = set()
    try:
        for _ in range(400):
            clock.at += chance.choice([0, 0, 0.1, 0.5, 1.0, 3.0, LEASE - 0.1, LEASE, LEASE + GRACE])
            alone(candidates)
            one = chance.choice(candidates)
            for _ in range(chance.choice([1, 1, 2, 5, 20])):
                one.go_on()
                led.update(alone(candidates))
        assert len(led) > 1, "hardly a test: leadership never changed"

        stopped = chance.choice([one for one in candidates if one.holder in alone(candidates)] or candidates)
        living = [one for one in candidates if one is not stopped]
        end = clock.at + LEASE + GRACE + 2 * STEP
        for one in living:
            one.faults = 0
        while not any(one.election.leads for one in living):
            assert clock.at <= end, "nobody leads"
            for one in living:
                done = one.steps
                while one.steps < done + 2:  # one that was under way when the other stopped, and one more
                    one.go_on()
                alone(candidates)
            clock.at += STEP
    finally:
        for one in candidates:
            one.end()


def test_the_lease_counts_from_before_the_beat_was_sent(url: str) -> None:
    clock = Clock()
    store = Store(url)
    election = Election(store, A, clock, LEASE, GRACE)
    renew = store.renew

    def slowly() -> None:
        clock.at += 4
        renew()
        clock.at += 3

    store.renew = slowly  # type: ignore[method-assign]
    assert election.step()
    assert election.step()
    clock.at += 2.9
    assert election.leads
    clock.at += 0.2
    assert not election.leads


@pytest.mark.parametrize(
    ("before", "meanwhile", "begun"), [(9.9, 0.0, 0), (10.0, 0.0, 1), (9.0, 0.9, 0), (9.0, 1.0, 1)]
)
def test_a_renewal_that_comes_too_late_begins_another_period(
    url: str, before: float, meanwhile: float, begun: int
) -> None:
    """``before``: from the last renewal to this one. ``meanwhile``: what the store takes for it."""
    clock = Clock()
    store = Store(url)
    election = Election(store, A, clock, LEASE, GRACE)
    assert election.period == 0
    renew = store.renew

    def slowly() -> None:
        clock.at += meanwhile
        renew()

    store.renew = slowly  # type: ignore[method-assign]
    assert election.step()
    assert election.period == 1
    clock.at += before
    assert election.step()
    assert election.period == 1 + begun
    store.close()


def test_a_standby_waits_for_lease_and_grace_from_when_it_first_saw_the_beat(url: str) -> None:
    clock = Clock()
    first, second = (Election(Store(url), holder, clock, LEASE, GRACE) for holder in (A, B))
    assert first.step()
    clock.at += 5
    assert not second.step()
    clock.at += LEASE + GRACE
    assert not second.step()
    assert not first.leads
    clock.at += 0.1
    assert second.step()
    assert not first.step()
    assert not first.leads


def test_who_resigned_is_followed_at_once(url: str) -> None:
    clock = Clock()
    first, second = (Election(Store(url), holder, clock, LEASE, GRACE) for holder in (A, B))
    assert first.step()
    assert not second.step()
    first.resign()
    assert not first.leads
    assert second.step()
    first.resign()
    assert second.step()


def test_a_candidate_s_store_writes_nothing_before_it_leads(url: str) -> None:
    store = Store(url)
    Election(store, A, Clock(), LEASE, GRACE)
    with pytest.raises(NotLeadingError):
        store.put_lanes([], [])


def test_an_election_in_which_nothing_was_done_has_no_leader(url: str) -> None:
    assert not Election(Store(url), A, lambda: -math.inf, LEASE, GRACE).leads


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_database_that_is_away_is_a_beat_that_was_missed(url: str, postgres_server: Any) -> None:
    clock = Clock()
    election = Election(Store(url), A, clock, LEASE, GRACE)
    assert election.step()
    with capture_logs() as lines:
        postgres_server.stop()
        try:
            clock.at += LEASE / 2
            assert election.step()
            clock.at += LEASE / 2
            assert not election.step()
        finally:
            postgres_server.start()
        assert election.step()
        assert election.step()
    assert [line["log_level"] for line in lines] == ["warning", "info"]
    assert "can't be reached" in lines[0]["error"]


@pytest.mark.parametrize("url", ["postgresql"], indirect=True)
def test_a_database_that_takes_no_writes_is_a_beat_that_was_missed(url: str, postgres_server: Any) -> None:
    Store(url).close()
    with postgres_server.read_only(url):
        election = Election(Store(f"{url}?target_session_attrs=any"), A, Clock(), LEASE, GRACE)
        assert not election.step()
    assert any([election.step(), election.step()])
