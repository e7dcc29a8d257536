"""Processes that are frozen while they hold a lock: who waits for it says so after a while, and goes on once it can."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.container import error_text
from anabranch.container.error_text import Remedy
from anabranch.errors import LogError
from anabranch.systems.embedded import LaneWriter, Log, disk, fence, trimming
from anabranch.systems.embedded.append import Appender
from anabranch.systems.embedded.expiry import Expiry
from anabranch.systems.embedded.trimming import Trimmed
from anabranch.systems.retention import Retention
from tests.unit.systems.embedded.helpers import contents, put, records

HOLDER = """
import fcntl, sys, time
with open(sys.argv[1], "r+") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    time.sleep(60)
"""

Act = Callable[[Log], object]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path / "root")
    made.create("s", 1)
    put(LaneWriter(made, "job", "lane", 1), made, "s", 0, 0, b"a")
    return made


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LOCKED_OUT_SECONDS", 0.2)


def publish(log: Log) -> None:
    put(LaneWriter(log, "job", "other", 1), log, "s", 0, 0, b"b")


def test_a_process_frozen_while_it_deletes_holds_up_no_fence_for_good(log: Log) -> None:
    lock = str(log.root / "s" / "0" / ".lock")
    disk.link_new(lock, b"")
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, lock], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        os.kill(holder.pid, signal.SIGSTOP)
        with pytest.raises(LogError) as caught:
            fence(log, "s", "job", "lane", 2)
    finally:
        holder.kill()
        holder.wait()
    fence(log, "s", "job", "lane", 2)
    assert caught.value.what.startswith(f"nothing can be added to {log.root}/s/0: other processes have held the lock")
    assert f"`fuser {lock}`" in caught.value.cure


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda log: fence(log, "s", "job", "lane", 2), "nothing can be added to {root}/s/0"),
        (publish, "nothing can be added to {root}/s/0"),
        (lambda log: Appender(log, "s").append(records([b"b"])), "nothing can be added to {root}/s/0"),
        (lambda log: log.readers("s").hold_all("job"), "job can't be registered as a reader of s"),
    ],
)
def test_a_partition_s_lock_is_waited_for_no_longer_than_a_while(log: Log, act: Act, what: str) -> None:
    lock = str(log.root / "s" / "0" / ".lock")
    with disk.try_exclusive(lock, 1), pytest.raises(LogError) as caught:
        act(log)
    assert what.format(root=log.root) in caught.value.what
    assert lock in caught.value.what
    act(log)


@pytest.mark.parametrize(
    ("act", "what"),
    [
        (lambda log: log.create("s", 1), "stream s can't be created"),
        (lambda log: log.expand("s", 2), "stream s can't be expanded"),
        (lambda log: log.retain("s", Retention(ms=1)), "stream s can't be changed"),
        (lambda log: log.readers("s").hold("job", {0: 1}), "job can't be registered as a reader of s"),
        (lambda log: log.readers("s").advance("job", {0: 1}, "x"), "what job has read of s can't be stored"),
        (lambda log: log.readers("s").forget("job"), "job can't be removed from the readers of s"),
    ],
)
def test_a_stream_s_lock_is_waited_for_no_longer_than_a_while(log: Log, act: Act, what: str) -> None:
    log.readers("s").hold_all("job")
    lock = str(log.root / "s" / ".lock")
    with disk.try_exclusive(lock, 1), pytest.raises(LogError) as caught:
        act(log)
    assert caught.value.what.startswith(f"{what}: other processes have held the lock {lock} for ")
    act(log)


def test_a_lock_that_is_released_in_time_is_taken(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LOCKED_OUT_SECONDS", 30.0)
    with disk.try_exclusive(str(log.root / "s" / "0" / ".lock"), 1):
        waiting = threading.Thread(target=publish, args=(log,))
        waiting.start()
        waiting.join(0.1)
        assert waiting.is_alive()
    waiting.join(30)
    assert contents(log, "s", 0) == [b"a", b"b"]


def test_a_long_deletion_lets_those_in_who_wait_to_write(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would otherwise be locked out, because between two parts of it, the lock is free for microseconds."""
    monkeypatch.setattr(disk, "LOCKED_OUT_SECONDS", 30.0)
    parts, writers = iter(range(12)), [threading.Thread(target=publish, args=(log,))]
    written_at: list[bool] = []

    def part(*_: object) -> Trimmed:
        with disk.try_exclusive(str(log.root / "s" / "0" / ".lock"), 5) as alone:
            assert alone
            if next(parts) == 0:
                writers[0].start()
            time.sleep(0.05)
            written_at.append(len(contents(log, "s", 0)) == 2)
        return Trimmed(1, 1, is_done=len(written_at) == 12)

    monkeypatch.setattr(trimming, "trim", part)
    Expiry(str(log.root), lambda: 0).expire(log.describe("s"), log.ends("s"), past_readers=True)
    writers[0].join(30)
    assert written_at[-1]


def test_a_lane_waits_for_such_a_lock_and_does_not_fail(log: Log) -> None:
    with disk.try_exclusive(str(log.root / "s" / "0" / ".lock"), 1), pytest.raises(LogError) as caught:
        publish(log)
    failed = error_text.failure(caught.value)
    assert (failed.remedy, failed.awaits) == (Remedy.WAIT, "a lock of the embedded log")
