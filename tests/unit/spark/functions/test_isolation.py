"""User code that ends its process: the messages at fault are found and rejected, and all others are worked on."""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.spark.functions import isolation
from anabranch.spark.functions.calling import Outcome, Rejection, UserFunction
from anabranch.spark.functions.isolation import Host, LostError

SCHEMA = pa.schema([("n", pa.int64())])
LIMIT = 2.0
NOTHING = SCHEMA.empty_table()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "PAUSE", 0.01)


def numbers(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"n": n} for n in range(count)], schema=SCHEMA)


def table(rows: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([rows])


def found(outcome: Outcome) -> list[int]:
    return list(outcome.rows.column("n").to_pylist())


@contextmanager
def isolated(kind: str, function: Callable[..., Any], seconds: float = math.inf) -> Iterator[isolation.Calls]:
    user = UserFunction(kind, function, SCHEMA, str(Path(__file__).parent), seconds)
    host = Host(isolation.service(user))
    try:
        yield isolation.called(user, host)
    finally:
        host.close()


def ran(kind: str, function: Callable[..., Any], count: int, seconds: float = math.inf, fails: bool = False) -> Outcome:
    begun: list[int] = []
    with isolated(kind, function, seconds) as calls:
        outcome = asyncio.run(calls(numbers(count), begun.append, fails))
    assert set(begun) <= set(range(count + 1))
    return outcome


def test_it_works_in_a_process_with_many_open_files() -> None:
    with ExitStack() as stack:
        for _ in range(1024):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        assert found(ran("map", dict, 3)) == [0, 1, 2]


def test_a_time_limit_that_user_code_sets_for_its_sockets_does_not_concern_it() -> None:
    def slow(message: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.3)
        return message

    socket.setdefaulttimeout(0.1)
    try:
        assert found(ran("map", slow, 2)) == [0, 1]
    finally:
        socket.setdefaulttimeout(None)


def deadly(message: dict[str, Any]) -> dict[str, Any]:
    match message["n"]:
        case 7:
            os._exit(3)
        case 150:
            ctypes.string_at(0)
        case 151:
            os.kill(os.getpid(), signal.SIGKILL)
        case 152:
            raise SystemExit(1)
    return message


async def deadly_later(message: dict[str, Any]) -> dict[str, Any]:
    await asyncio.sleep(0)
    return deadly(message)


def deadly_batch(rows: pa.RecordBatch) -> pa.RecordBatch:
    for row in rows.to_pylist():
        deadly(row)
    return rows


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("map", deadly),
        pytest.param("map", deadly_later, marks=pytest.mark.long),
        pytest.param("flat_map", lambda m: [deadly(m)], marks=pytest.mark.long),
        pytest.param("filter", lambda m: bool(deadly(m)), marks=pytest.mark.long),
        pytest.param("map_arrow", deadly_batch, marks=pytest.mark.long),
    ],
)
@pytest.mark.long
def test_messages_that_kill_their_process_are_rejected_and_no_others(kind: str, function: Any) -> None:
    outcome = ran(kind, function, 300)
    assert found(outcome) == [n for n in range(300) if n not in (7, 150, 151, 152)]
    assert outcome.places.tolist() == found(outcome)
    told = {each.place: each.error for each in outcome.rejected}
    assert told.keys() == {7, 150, 151, 152}
    assert told[7] == "the worker died on it 3 times: it ended with exit code 3"
    assert told[150] == "the worker died on it 3 times: killed by SIGSEGV"
    assert told[151] == "the worker died on it 3 times: killed by SIGKILL"
    assert told[152].startswith("SystemExit: 1 at test_isolation.py:")


@pytest.mark.long
def test_a_message_that_kills_once_is_worked_on(tmp_path: Path) -> None:
    """As one that memory hadn't sufficed for."""
    mark = tmp_path / "mark"

    def kills_once(message: dict[str, Any]) -> dict[str, Any]:
        if message["n"] == 5 and not mark.exists():
            mark.touch()
            os._exit(1)
        return message

    outcome = ran("map", kills_once, 10)
    assert (found(outcome), outcome.rejected) == (list(range(10)), ())


def test_a_message_that_takes_too_long_is_rejected_at_once() -> None:
    def slow(message: dict[str, Any]) -> dict[str, Any]:
        if message["n"] in (3, 8):
            time.sleep(3600)
        return message

    begun = time.monotonic()
    outcome = ran("map", slow, 20, seconds=LIMIT)
    assert found(outcome) == [n for n in range(20) if n not in (3, 8)]
    assert [each.place for each in outcome.rejected] == [3, 8]
    assert outcome.rejected[0].error == "the function worked on it for more than 2 s: [job] message_timeout"
    assert time.monotonic() - begun < 60


@pytest.mark.long
def test_a_batch_that_takes_too_long_is_tried_row_by_row() -> None:
    def slow(rows: pa.RecordBatch) -> pa.RecordBatch:
        if 3 in rows.column("n").to_pylist():
            time.sleep(3600)
        return rows

    outcome = ran("map_arrow", slow, 6, seconds=LIMIT)
    assert (found(outcome), [each.place for each in outcome.rejected]) == ([0, 1, 2, 4, 5], [3])


def test_an_async_function_that_takes_too_long_is_broken_off() -> None:
    async def slow(message: dict[str, Any]) -> dict[str, Any]:
        if message["n"] == 3:
            await asyncio.sleep(3600)
        return message

    outcome = ran("map", slow, 6, seconds=LIMIT)
    assert (found(outcome), [each.place for each in outcome.rejected]) == ([0, 1, 2, 4, 5], [3])


@pytest.mark.long
def test_the_first_rejection_is_the_last_where_it_fails_the_lane() -> None:
    outcome = ran("map", deadly, 300, fails=True)
    assert outcome.rejected[0].place == 7


def _asking(rounds: int, pause: float) -> Callable[[], Any]:
    def opened() -> Any:
        def serve(request: Any, channel: Any) -> str:
            channel.begin(1)(0)
            for _ in range(rounds):
                time.sleep(pause)
                channel.ask("what is the state?")
            return "done"

        return serve

    return opened


def test_questions_do_not_prolong_what_a_message_may_take() -> None:
    host = Host(_asking(200, 0.05))
    try:
        with pytest.raises(LostError) as lost:
            host.ask(None, seconds=1.0)
        assert (lost.value.at, lost.value.late) == (0, True)
    finally:
        host.close()


def test_a_message_does_not_pay_for_the_time_its_answers_take() -> None:
    host = Host(_asking(4, 0.0))
    try:
        assert host.ask(None, seconds=1.0, answer=lambda _: time.sleep(0.5)) == "done"
    finally:
        host.close()


def _converting() -> Any:
    """A service that works on its two messages at once, and then needs long for their results."""

    def serve(request: Any, channel: Any) -> str:
        begin = channel.begin(2)
        for place in range(3):
            begin(place)
        time.sleep(1.0)
        return "done"

    return serve


def test_the_last_message_does_not_pay_for_what_follows_it() -> None:
    """Converting the results of all messages, for example, and what the first conversion imports."""
    host = Host(_converting)
    begun: list[int] = []
    try:
        assert host.ask(None, begun.append, seconds=0.3) == "done"
        assert begun == [0, 1, 2]
    finally:
        host.close()


class Stuck:
    """As a job's file whose import hangs in each process but the first one."""

    def __init__(self, note: Path) -> None:
        self.note = note

    def __reduce__(self) -> Any:
        return _stuck, (self.note,)


def _stuck(note: Path) -> Any:
    if note.exists():
        time.sleep(3600)
    note.touch()


@pytest.mark.parametrize("size", [10, 2**24])
def test_a_process_that_does_not_start_is_given_up_however_large_its_request_is(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(Stuck(tmp_path / "note"))  # type: ignore[arg-type]
    monkeypatch.setattr(isolation, "BEGINS_WITHIN", 0.5)
    try:
        with pytest.raises(RuntimeError, match=r"ends before that begins: it hasn't started within 0.5 s"):
            host.ask(b"x" * size)
    finally:
        host.close(10.0)


def test_what_cannot_be_loaded_says_so() -> None:
    class Odd:
        def __reduce__(self) -> Any:
            return exec, ("raise ValueError('not here')",)

    user = UserFunction("map", Odd(), SCHEMA, "", math.inf)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="the process for user code can't start: ValueError: not here"):
        Host(isolation.service(user))


def test_processes_end_with_their_host(tmp_path: Path) -> None:
    """One that is in user code as well, when nobody waits for it any more."""
    note = tmp_path / "pid"

    def stuck(message: dict[str, Any]) -> dict[str, Any]:
        note.write_text(str(os.getpid()))
        time.sleep(3600)
        return message

    user = UserFunction("map", stuck, SCHEMA, "", math.inf)
    host = Host(isolation.service(user))
    calls = isolation.called(user, host)
    waiting = threading.Thread(target=lambda: asyncio.run(_lost(calls)), daemon=True)
    waiting.start()
    end = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < end
        time.sleep(0.01)
    pid = int(note.read_text())
    host.close()
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)


def _forking() -> Any:
    """A service whose process dies while a child of it goes on."""

    def serve(request: Any, channel: Any) -> str:
        channel.begin(1)(0)
        if request == "start":
            os.system("sleep 20 &")
            os.kill(os.getpid(), signal.SIGKILL)
        if request == "fork" and os.fork():
            os.kill(os.getpid(), signal.SIGKILL)
        if request == "fork":
            time.sleep(20)
            os._exit(0)
        return "done"

    return serve


@pytest.mark.parametrize("how", ["fork", "start"])
def test_the_death_of_a_process_is_noticed_while_a_child_of_it_goes_on(how: str) -> None:
    host = Host(_forking)
    try:
        begun = time.monotonic()
        with pytest.raises(LostError, match="killed by SIGKILL"):
            host.ask(how)
        assert time.monotonic() - begun < 10
        assert host.ask("work") == "done"
    finally:
        host.close()


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found]


def hosts() -> list[int]:
    """The processes of this one that fork others."""
    return [pid for pid in children(os.getpid()) if b"isolation_host" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def test_how_the_host_of_the_processes_has_ended_is_told() -> None:
    before = hosts()
    host = Host(_forking)
    try:
        (pid,) = set(hosts()) - set(before)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(
            RuntimeError, match=r"the process that starts those for user code has ended: killed by SIGKI"
        ):
            host.ask("work")
    finally:
        host.close()


FULL = """
import os, pathlib
fork, note = os.fork, pathlib.Path(__file__).with_name("full")
def forked():
    if note.exists():
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()
os.fork = forked
"""


def test_a_process_that_cannot_be_started_is_told_and_the_next_one_may_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(FULL)
    monkeypatch.syspath_prepend(tmp_path)
    host = Host(_forking)
    try:
        (tmp_path / "full").touch()
        with pytest.raises(RuntimeError, match=r"no process for user code can be started: \[Errno 11\] Resource tempo"):
            host.ask("work")
        (tmp_path / "full").unlink()
        assert host.ask("work") == "done"
    finally:
        host.close()


LOADS = """
import sys
from anabranch.spark.functions.isolation import Host

class Hangs:
    def __reduce__(self):
        return exec, (f"import os, time; open({sys.argv[1]!r}, 'w').write(str(os.getpid())); time.sleep(600)",)

Host(Hangs())
"""
"""As a module that hangs while it is imported."""


def test_code_that_does_not_load_leaves_no_process_behind(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    worker = subprocess.Popen([sys.executable, "-c", LOADS, str(note)])
    end = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < end
        time.sleep(0.01)
    worker.kill()
    worker.wait()
    while Path(f"/proc/{note.read_text()}").exists():
        assert time.monotonic() < end
        time.sleep(0.01)


HOLDS = """
import asyncio, os, sys, time
import pyarrow as pa
from anabranch.spark.functions import isolation
from anabranch.spark.functions.calling import UserFunction

def stuck(message, note=sys.argv[1]):
    open(note, "w").write(str(os.getpid()))
    while True:
        pass

schema = pa.schema([("n", pa.int64())])
user = UserFunction("map", stuck, schema, "")
calls = isolation.called(user, isolation.Host(isolation.service(user)))
asyncio.run(calls(pa.RecordBatch.from_pylist([{"n": 1}], schema=schema), lambda _: None))
"""


def test_processes_end_with_their_worker(tmp_path: Path) -> None:
    """As Spark ends it where it stops a task."""
    note = tmp_path / "pid"
    worker = subprocess.Popen([sys.executable, "-c", HOLDS, str(note)])
    end = time.monotonic() + 60
    while not (note.exists() and note.read_text()):
        assert time.monotonic() < end
        time.sleep(0.01)
    pid = int(note.read_text())
    worker.kill()
    worker.wait()
    while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text():
        assert time.monotonic() < end
        time.sleep(0.01)


async def _lost(calls: isolation.Calls) -> None:
    try:
        await calls(numbers(1), lambda _: None)
    except Exception:
        return


# The narrowing by itself, with a model of the process.


@given(
    st.integers(0, 400),
    st.sets(st.integers(0, 400), max_size=5),
    st.sets(st.integers(0, 400), max_size=5),
    st.dictionaries(st.integers(0, 400), st.integers(1, 3), max_size=3),
    st.booleans(),
)
def test_each_row_is_rejected_or_comes_out(
    count: int, killers: set[int], late: set[int], sometimes: dict[int, int], names_late: bool
) -> None:
    """``sometimes``: rows that kill so many times and no more. Once among others, and twice alone, is survived."""
    left = dict(sometimes)
    deaths = 0

    def ask(rows: pa.RecordBatch, at: int) -> Outcome:
        nonlocal deaths
        for place, n in enumerate(rows.column("n").to_pylist()):
            if n in late and n not in killers:
                raise LostError(place if names_late else 0, "late", late=True)
            if n in killers or left.get(n, 0):
                left[n] = left.get(n, 1) - 1
                deaths += 1
                raise LostError(place, "killed", late=False)
        return Outcome(table(rows), np.arange(rows.num_rows))

    rows = numbers(count)
    outcome = isolation.narrowed(rows, NOTHING, ask, names_late, fails=False)
    rejected = {each.place: each.error for each in outcome.rejected}
    assert sorted([*found(outcome), *rejected]) == list(range(count))
    assert found(outcome) == outcome.places.tolist() == sorted(found(outcome))
    maybe = {n for n, times in sometimes.items() if times >= 3}
    sure = {n for n in killers | late if n < count}
    assert sure <= rejected.keys() <= sure | maybe
    assert all(rejected[n] == "the worker died on it 3 times: killed" for n in rejected if n in killers)
    assert deaths <= (isolation.TRIES + 1) * (len(killers) + len(sometimes))


def test_a_row_is_guessed_only_if_its_part_of_the_rows_was_processed_whole() -> None:
    """One part has a row that is rejected, so each of its rows was processed alone; another part lost a row."""

    def ask(rows: pa.RecordBatch, at: int) -> Outcome:
        if at == 0:
            known = rows.slice(1)
            return Outcome(table(known), np.arange(1, rows.num_rows), (Rejection(0, "wrong"),))
        fewer = rows.slice(1)
        return Outcome(table(fewer), np.arange(fewer.num_rows), guessed=np.full(fewer.num_rows, True))

    rows = numbers(150)
    outcome = isolation.narrowed(rows, NOTHING, ask, names_late=False, fails=False)
    assert outcome.guessed is not None
    guessed = dict(zip(found(outcome), outcome.guessed.tolist(), strict=True))
    step = next(n for n, whether in guessed.items() if whether) - 1
    assert 1 < step < 150
    assert guessed == {n: n > step for n in range(1, 150) if n % step != 0}


def test_no_row_is_guessed_if_each_part_has_as_many_rows_as_before() -> None:
    assert (
        isolation.narrowed(
            numbers(150), NOTHING, lambda rows, _: Outcome(table(rows), np.arange(rows.num_rows)), False, False
        ).guessed
        is None
    )
