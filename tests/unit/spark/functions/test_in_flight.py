"""What functions are at, and how far they are, is told while they are; one that takes too long ends its worker."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest

from anabranch.model.ssp import WHOLE
from anabranch.spark.functions import in_flight
from anabranch.spark.functions.hearing import Listener
from anabranch.task_progress import meters
from anabranch.task_progress.counts import TaskCounts, TaskReport
from anabranch.task_progress.meters import Meter

ORIGIN = pa.array(
    [{"task": 0, "source": 3, "partition": 1, "offset": 40 + n, "key": b"k", "bucket": n % 2 * 2} for n in range(4)]
)
RUN, BATCH = "", -1
"""Of what isn't in a Spark task."""


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr(meters, "REPORT_EVERY", 0.02)
    monkeypatch.setattr(meters, "LONG_WORK", 0.1)
    made = Listener("127.0.0.1")
    yield made
    made.close()


def until(look: Callable[[], Any]) -> Any:
    end = time.monotonic() + 5
    while not (found := look()):
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def heard(listener: Listener, label: str = "map 'slow'") -> TaskCounts | None:
    return next((each for each in listener.of(RUN, BATCH) if each.told.label == label), None)


def rows(listener: Listener) -> int:
    found = heard(listener)
    return 0 if found is None else sum(count.rows for count in found.counts)


def test_rows_are_told_while_they_are_worked_on_and_the_message_that_takes_long(listener: Listener) -> None:
    meter = meters.meter(listener.line, "map 'slow'")
    with in_flight.on(meter, ORIGIN, 4):
        in_flight.at(0)
        in_flight.at(3)
        until(lambda: rows(listener) == 3)
        work = until(lambda: listener.oldest(RUN))
        assert (work.label, work.source, work.partition, work.offset, work.bucket) == ("map 'slow'", 3, 1, 43, 2)
        (count,) = heard(listener).counts  # type: ignore[union-attr]
        assert (count.task, count.source, count.partition, count.bucket, count.offset) == (0, 3, 1, 0, 42)
        assert count.seconds > 0.1
    until(lambda: rows(listener) == 4)
    assert listener.oldest(RUN) is None
    meter.close()
    assert until(lambda: heard(listener).told.ended)  # type: ignore[union-attr]
    assert not heard(listener).fresh  # type: ignore[union-attr]


def test_at_factor_1_a_partition_is_one_bucket(listener: Listener) -> None:
    meter = meters.meter(listener.line, "map 'slow'")
    with in_flight.on(meter, ORIGIN, 1):
        in_flight.at(3)
    (count,) = until(lambda: (found := heard(listener)) and found.counts)
    assert (count.bucket, count.rows, count.offset) == (WHOLE, 4, 43)


def test_rows_that_a_function_fails_on_are_not_done(listener: Listener) -> None:
    meter = meters.meter(listener.line, "map 'slow'")
    with suppress(ZeroDivisionError), in_flight.on(meter, ORIGIN, 1):
        in_flight.at(2)
        raise ZeroDivisionError
    until(lambda: rows(listener) == 2)


def test_where_nobody_listens_the_function_goes_on() -> None:
    meter = meters.meter(None, "map")
    with in_flight.on(meter, ORIGIN, 1):
        in_flight.at(1)
    assert meter.now(everything=True).counts[0].rows == 4
    gone = Listener("127.0.0.1")
    gone.close()
    unheard = meters.meter(gone.line, "map")
    with in_flight.on(unheard, ORIGIN, 1):
        time.sleep(0.1)
    assert unheard.now(everything=True).counts[0].rows == 4


def test_a_driver_that_is_reached_again_is_told_everything(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it missed, and what it had heard."""
    connections: list[Any] = []
    connect = meters.socket.create_connection
    resting, now = threading.Lock(), Meter.now

    def noted(*args: Any) -> Any:
        connections.append(connect(*args))
        return connections[-1]

    def told(meter: Meter, everything: bool) -> TaskReport:
        with resting:
            return now(meter, everything)

    monkeypatch.setattr(meters.socket, "create_connection", noted)
    monkeypatch.setattr(Meter, "now", told)
    meter = meters.meter(listener.line, "map 'slow'")
    with in_flight.on(meter, ORIGIN, 1):
        pass
    until(lambda: rows(listener) == 4)
    with (
        resting
    ):  # otherwise the next report, that the Spark task still lives, can arrive before the driver is looked at
        connections[-1].shutdown(meters.socket.SHUT_RDWR)
        until(lambda: not any(each.fresh for each in listener.of(RUN, BATCH)))  # it has heard the connection's end
        for number in range(1000):  # more runs than it remembers
            listener.hear(TaskReport(run=f"another-{number}", batch=0, stage=0, partition=0, attempt=0, label="map"))
        assert listener.of(RUN, BATCH) == []
    until(lambda: rows(listener) == 4)
    meter.close()


def test_a_last_report_waits_until_the_driver_is_reached(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = threading.Event()

    def refused(*_: Any) -> Any:
        tried.set()
        raise ConnectionRefusedError

    with monkeypatch.context() as patch:
        patch.setattr(meters.socket, "create_connection", refused)
        meter = meters.meter(listener.line, "map 'slow'")
        with in_flight.on(meter, ORIGIN, 1):
            pass
        meter.close()
        tried.clear()
        until(tried.is_set)
    until(lambda: (found := heard(listener)) and found.told.ended)
    assert rows(listener) == 4


def meter_of(received: list[tuple[int, int]]) -> Meter:
    meter = meters.meter(None, "map")
    for rows, offset in received:
        meter.receive(3, 1, rows, offset)
    return meter


def test_what_has_come_is_told_by_partition() -> None:
    (received,) = meter_of([(10, 19), (5, 29)]).now(everything=False).received
    assert (received.source, received.partition, received.rows, received.offset) == (3, 1, 15, 29)


def test_only_changed_counts_are_told_again() -> None:
    meter = meters.meter(None, "publishing")
    with meter.on(meter.tally(0, 0, 1), 5, 7):
        pass
    assert [(each.rows, each.offset) for each in meter.now(everything=False).counts] == [(5, 7)]
    assert meter.now(everything=False).counts == ()
    assert len(meter.now(everything=True).counts) == 1


ANSWERED = """
import time
import pyarrow as pa
from anabranch.spark.functions import in_flight
from anabranch.task_progress import meters

in_flight.LOOK_EVERY = 0.05
origin = pa.array([{"task": 0, "source": 0, "partition": 0, "offset": 7, "key": b"k", "bucket": 0}])
meter = meters.meter(None, "map 'slow'")
with in_flight.on(meter, origin, 1, 2.0):
    in_flight.at(0)
    in_flight.at(1)
    time.sleep(3.5)
    assert meter.now(everything=True).work is None
"""


def test_what_follows_the_last_message_has_no_limit() -> None:
    done = subprocess.run([sys.executable, "-c", ANSWERED], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr


ENDS = """
import ctypes, sys, time
import pyarrow as pa
from anabranch.spark.functions import in_flight
from anabranch.task_progress import meters

in_flight.LOOK_EVERY = 0.05
origin = pa.array([{"task": 0, "source": 0, "partition": 0, "offset": 7, "key": b"k", "bucket": 0}])
with in_flight.on(meters.meter(None, "map 'slow'"), origin, 1, 0.5):
    in_flight.at(0)
    if sys.argv[1] == "held":
        ctypes.PyDLL(None).sleep(60)  # without giving Python's lock back
    time.sleep(60)
"""


@pytest.mark.parametrize(("how", "code"), [("free", in_flight.OVERDUE_EXIT), ("held", 1)])
def test_a_worker_in_which_a_message_takes_too_long_ends(how: str, code: int) -> None:
    """Also if no other thread of it can run."""
    done = subprocess.run([sys.executable, "-c", ENDS, how], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == code, done.stderr
    assert ("map 'slow' takes too long" in done.stderr) == (how == "free")


GOES_ON = """
import time
import pyarrow as pa
from anabranch.spark.functions import in_flight
from anabranch.task_progress import meters

in_flight.LOOK_EVERY = 0.05
fields = {"task": 0, "source": 0, "partition": 0, "key": b"k", "bucket": 0}
origin = pa.array([{**fields, "offset": n} for n in range(20)])
meter = meters.meter(None, "map 'quick'")
with in_flight.on(meter, origin, 1, 3.0):
    for index in range(20):
        in_flight.at(index)
        time.sleep(0.2)
with in_flight.on(meter, origin, 1, 3.0):
    pass  # sooner than anybody looks
time.sleep(4)
"""


@pytest.mark.long
def test_a_worker_that_is_within_its_limit_goes_on() -> None:
    """Though it works longer on many messages; and nothing is left to end it afterwards."""
    done = subprocess.run([sys.executable, "-c", GOES_ON], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr


def test_of_a_key_the_message_is_told_too_and_rows_have_no_order(listener: Listener) -> None:
    meter = meters.meter(listener.line, "process 'p'", ordered=False)
    origins = [{"source": 3, "partition": 1, "offset": 40 + n} for n in range(3)]
    with in_flight.on_key(meter, origins, (0, 2)):
        in_flight.at(1)
        work = until(lambda: listener.oldest(RUN))
        assert (work.label, work.source, work.partition, work.offset, work.bucket) == ("process 'p'", 3, 1, 41, 2)
    found = until(lambda: (each := heard(listener, "process 'p'")) and each.counts[0].rows == 3 and each)
    assert (found.counts[0].bucket, found.counts[0].offset) == (2, None)
