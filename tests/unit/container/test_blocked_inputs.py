"""Which inputs are blocked back by an open transaction, and when a lane warns of it."""

from __future__ import annotations

from typing import Any, cast

from anabranch.container.blocked_inputs import BlockedInputs
from anabranch.errors import AnabranchError
from anabranch.model.ssp import SSP
from anabranch.systems.findings import JavaClasses, OpenTransaction
from anabranch.systems.systems import Systems

FLIGHTS = [SSP(system="kafka", stream="flights", partition=p) for p in (0, 1)]


class _System:
    transactional = True

    def __init__(self) -> None:
        self.end = {0: 10, 1: 20}
        self.last = {0: 10, 1: 20}
        self.away = False
        self.asked = 0

    def ends(self, stream: str, partitions: object = None) -> dict[int, int]:
        self._check()
        return self.end

    def high_watermarks(self, stream: str) -> dict[int, int]:
        self._check()
        return self.last

    def open_transaction(self, stream: str, partition: int, java: JavaClasses) -> OpenTransaction | None:
        self.asked += 1
        self._check()
        behind = self.last[partition] - self.end[partition]
        return OpenTransaction(self.end[partition], behind, 0.0, "somebody", "end it")

    def _check(self) -> None:
        if self.away:
            raise AnabranchError("away", "")


class _Systems:
    def __init__(self, system: _System) -> None:
        self.system = system

    def named(self, name: str) -> _System:
        return self.system


def watched(system: _System) -> BlockedInputs:
    return BlockedInputs("0-1", cast(Systems, _Systems(system)), FLIGHTS, lambda name: cast(Any, None))


def looked(blocked: BlockedInputs, positions: dict[str, int], now: float) -> tuple[str, ...]:
    blocked.update(positions, now)
    return blocked.warnings


def at(*positions: int) -> dict[str, int]:
    return {str(ssp): position for ssp, position in zip(FLIGHTS, positions, strict=True)}


def test_a_lane_warns_once_it_has_waited_for_ten_seconds() -> None:
    system = _System()
    blocked = watched(system)
    assert looked(blocked, at(10, 20), 0.0) == ()
    system.last[1] = 25
    assert looked(blocked, at(10, 20), 5.0) == ()
    assert looked(blocked, at(10, 20), 14.9) == ()
    (warning,) = looked(blocked, at(10, 20), 15.0)
    assert warning == (
        "kafka/flights/1 can't be read from offset 20 on (5 offsets): a transaction of somebody is open there, since "
        "1970-01-01 00:00:00 UTC; end it"
    )
    assert looked(blocked, at(10, 20), 40.0) == (warning,)
    assert system.asked == 1, "the brokers are asked once for each transaction"


def test_there_is_no_warning_while_the_lane_has_records_to_read() -> None:
    system = _System()
    system.last[1] = 25
    blocked = watched(system)
    for second in range(0, 60, 5):
        assert looked(blocked, at(10, 19), second) == ()


def test_the_warning_ends_with_the_transaction_and_another_one_is_waited_for_anew() -> None:
    system = _System()
    system.last[1] = 25
    blocked = watched(system)
    looked(blocked, at(10, 20), 0.0)
    assert looked(blocked, at(10, 20), 10.0)
    system.end[1] = 22
    assert looked(blocked, at(10, 22), 15.0) == ()
    assert looked(blocked, at(10, 22), 24.0) == ()
    (again,) = looked(blocked, at(10, 22), 25.0)
    assert "from offset 22 on (3 offsets)" in again
    system.end[1] = 25
    assert looked(blocked, at(10, 25), 30.0) == ()


def test_transactions_that_follow_each_other_are_none_to_warn_of() -> None:
    system = _System()
    blocked = watched(system)
    for second in range(0, 120, 5):
        system.end[0], system.last[0] = second, second + 5
        assert looked(blocked, at(second, 20), second) == ()


def test_brokers_that_do_not_answer_are_no_reason_to_fail() -> None:
    system = _System()
    system.last[1] = 25
    blocked = watched(system)
    looked(blocked, at(10, 20), 0.0)
    system.away = True
    assert looked(blocked, at(10, 20), 20.0) == ()
    system.away = False
    (warning,) = looked(blocked, at(10, 20), 25.0)
    system.away = True
    assert looked(blocked, at(10, 20), 30.0) == (warning,), "it isn't known to have ended"


def test_a_system_without_transactions_is_not_asked() -> None:
    system = _System()
    system.transactional, system.away = False, True
    blocked = watched(system)
    blocked.look(at(10, 20), 0.0)
    assert blocked.warnings == ()
