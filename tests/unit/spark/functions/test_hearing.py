"""The driver hears its workers, and nobody else."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import msgspec
import pytest

from anabranch.spark.functions.hearing import Listener
from anabranch.task_progress.counts import Cancel, Count, Greeting, ReportAddress, TaskReport, Work


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener("127.0.0.1")
    yield made
    made.close()


def told(rows: int = 0, batch: int = 3, run: str = "r", attempt: int = 0, **more: object) -> TaskReport:
    counts = (Count(0, 1, 2, -1, rows, 1.0, 9),) if rows else ()
    fields = {"stage": 0, "partition": 0, "label": "map", "counts": counts, **more}
    return TaskReport(run=run, batch=batch, attempt=attempt, **fields)  # type: ignore[arg-type]


def connected(listener: Listener, token: str | None = None) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", listener.line.port), 5)
    made.sendall(msgspec.json.encode(Greeting(listener.line.token if token is None else token)) + b"\n")
    return made


def send(connection: socket.socket, what: TaskReport) -> None:
    connection.sendall(msgspec.json.encode(what) + b"\n")


def is_ended(connection: socket.socket) -> bool:
    connection.settimeout(5)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def rows(listener: Listener, wanted: int, run: str = "r", batch: int = 3) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if sum(count.rows for each in listener.of(run, batch) for count in each.counts) == wanted:
            return True
        time.sleep(0.01)
    return False


def test_counts_that_a_line_leaves_out_stay(listener: Listener) -> None:
    with connected(listener) as worker:
        send(worker, told(rows=5))
        send(worker, told())
        assert rows(listener, 5)


def test_counts_that_are_known_grow_although_there_is_no_room_for_more(listener: Listener) -> None:
    for done in (1, 5):
        listener.hear(told(counts=tuple(Count(0, 1, 2, bucket, done, 1.0, 9) for bucket in range(70_000))))
    (heard,) = listener.of("r", 3)
    assert {count.bucket: count.rows for count in heard.counts} == dict.fromkeys(range(65_536), 5)


def test_a_line_may_come_in_pieces(listener: Listener) -> None:
    with connected(listener) as worker:
        line = msgspec.json.encode(told(rows=5)) + b"\n"
        worker.sendall(line[:20])
        time.sleep(0.05)
        worker.sendall(line[20:])
        assert rows(listener, 5)


@pytest.mark.parametrize("junk", [b"GET / HTTP/1.1\r\n", b"{}\n", b'{"token": "x"}\n', b"\xff" * 4000])
def test_who_does_not_know_the_token_is_not_heard(junk: bytes, listener: Listener) -> None:
    with socket.create_connection(("127.0.0.1", listener.line.port), 5) as stranger:
        stranger.sendall(junk + msgspec.json.encode(told(rows=5)) + b"\n")
        assert is_ended(stranger)
    assert listener.of("r", 3) == []
    with connected(listener) as worker:  # others are
        send(worker, told(rows=7))
        assert rows(listener, 7)


@pytest.mark.parametrize("junk", [b"no JSON\n", b'{"run": 1}\n', b"x" * (2**20 + 2**17)])
def test_junk_ends_a_connection_and_no_other(junk: bytes, listener: Listener) -> None:
    with connected(listener) as worker, connected(listener) as broken:
        send(worker, told(rows=5))
        broken.sendall(junk)
        assert is_ended(broken)
        send(worker, told(rows=6))
        assert rows(listener, 6)


def test_of_an_older_batch_nothing_is_heard(listener: Listener) -> None:
    listener.hear(told(rows=5, batch=3))
    listener.hear(told(rows=8, batch=4))
    listener.hear(told(rows=9, batch=3, attempt=7))
    assert listener.of("r", 3) == []
    assert rows(listener, 8, batch=4)


def test_runs_are_told_apart_and_only_so_many_remembered(listener: Listener) -> None:
    listener.hear(told(rows=5, run="first"))
    for number in range(300):
        listener.hear(told(rows=1, run=f"run {number}"))
    assert listener.of("first", 3) == []
    assert rows(listener, 1, run="run 299")


def test_of_a_worker_that_is_gone_nothing_is_under_way(listener: Listener) -> None:
    work = Work("map", 0, 0, 7, 0, 4.0)
    with connected(listener) as worker:
        send(worker, told(rows=5, work=work))
        assert rows(listener, 5)
        assert listener.oldest("r") == work
        assert listener.of("r", 3)[0].fresh
    end = time.monotonic() + 5
    while listener.of("r", 3)[0].fresh and time.monotonic() < end:
        time.sleep(0.01)
    assert listener.oldest("r") is None
    assert rows(listener, 5)


def heard(connection: socket.socket) -> Cancel:
    connection.settimeout(5)
    return msgspec.json.decode(connection.recv(1000).split(b"\n")[0], type=Cancel)  # it may be told twice


def test_workers_are_told_that_a_run_is_cancelled(listener: Listener) -> None:
    with connected(listener) as early, connected(listener) as late:
        send(early, told(rows=5))
        assert rows(listener, 5)
        listener.cancel("r")
        assert heard(early) == Cancel("r")
        send(late, told(rows=7, attempt=1))  # it had not been heard of yet
        assert heard(late) == Cancel("r")


WORKER = """
import sys, time
import msgspec
from anabranch.task_progress import meters
from anabranch.task_progress.counts import of_text

line = of_text(sys.argv[1])
made = meters.meter(line, "map")
made.told = msgspec.structs.replace(made.told, run=sys.argv[2], batch=3)
if sys.argv[3] == "ended":
    made.close()
with made.on(made.tally(0, 1, 2), 1):
    time.sleep(float(sys.argv[4]))
"""


@pytest.mark.parametrize(
    ("run", "state", "ends"), [("r", "works", True), ("other", "works", False), ("r", "ended", False)]
)
def test_a_worker_exits_in_the_middle_of_a_task_that_is_cancelled(
    listener: Listener, run: str, state: str, ends: bool
) -> None:
    seconds = "60" if ends else "2.5"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, listener.line.text, run, state, seconds])
    end = time.monotonic() + 20
    while not listener.of(run, 3) and time.monotonic() < end:
        time.sleep(0.01)
    assert listener.of(run, 3)
    began = time.monotonic()
    listener.cancel("r")
    assert worker.wait(20) == (1 if ends else 0)
    assert not ends or time.monotonic() < began + 5


def test_a_message_that_a_worker_cannot_read_ends_its_connection_and_not_its_reports() -> None:
    with socket.create_server(("127.0.0.1", 0)) as driver:
        driver.settimeout(20)
        line = ReportAddress("127.0.0.1", driver.getsockname()[1], "t")
        worker = subprocess.Popen([sys.executable, "-c", WORKER, line.text, "r", "works", "60"])
        try:
            for _ in range(2):  # the worker connects again
                connection, _ = driver.accept()
                with connection, connection.makefile("rb") as lines:
                    connection.settimeout(20)
                    assert msgspec.json.decode(lines.readline(), type=Greeting) == Greeting("t")
                    assert msgspec.json.decode(lines.readline(), type=TaskReport).run == "r"
                    connection.sendall(b'{"stop": 1}\n')
                    lines.readlines()  # until the worker closes the connection
            assert worker.poll() is None
        finally:
            worker.kill()
            worker.wait()
