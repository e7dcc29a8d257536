"""One loop for all that waits, in virtual time; and programs that don't end in time."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from anabranch.deadlines import answered_within, run_within, wait_until
from anabranch.errors import OutOfTimeError


@dataclass
class Clock:
    now: float = 100.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def late() -> OutOfTimeError:
    return OutOfTimeError("it isn't there", "wait longer")


def waited(clock: Clock, there_at: float, within: float, every: float = 1.0) -> str:
    def look() -> str | None:
        return "there" if clock.now >= there_at else None

    return wait_until(look, within, late, every, clock=clock, sleep=clock.sleep)


def test_what_is_there_is_not_waited_for() -> None:
    clock = Clock()
    assert waited(clock, there_at=0, within=0) == "there"
    assert clock.slept == []


def test_it_looks_again_and_again() -> None:
    clock = Clock()
    assert waited(clock, there_at=102.5, within=10) == "there"
    assert clock.slept == [1, 1, 1]


def test_it_looks_once_more_when_the_time_is_over() -> None:
    clock = Clock()
    assert waited(clock, there_at=102.5, within=2.5) == "there"
    assert clock.slept == [1, 1, 0.5]


def test_what_does_not_come_in_time_is_an_error() -> None:
    clock = Clock()
    with pytest.raises(OutOfTimeError, match="it isn't there"):
        waited(clock, there_at=1000, within=2.5)
    assert clock.slept == [1, 1, 0.5]


def test_a_result_may_be_false() -> None:
    assert wait_until(lambda: False, 0, late, 1.0) is False
    assert wait_until(lambda: 0, 0, late, 1.0) == 0


def test_an_error_of_the_look_is_not_waited_out() -> None:
    clock, looks = Clock(), []

    def look() -> str | None:
        looks.append(clock.now)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        wait_until(look, 10, late, 1.0, clock=clock, sleep=clock.sleep)
    assert looks == [100]


def test_an_answer_that_comes_in_pieces_in_time_is_passed_on() -> None:
    def gen() -> Generator[str, int, int]:
        return (yield "read") + (yield "write")

    now, waiting = iter([0.0, 1.0]), answered_within(gen(), 2.0, RuntimeError, clock=lambda: next(now))
    assert next(waiting) == "read"
    assert waiting.send(4) == "write"
    with pytest.raises(StopIteration) as done:
        waiting.send(3)
    assert done.value.value == 7


def test_a_server_that_is_silent_for_too_long_is_an_error() -> None:
    def gen() -> Generator[str, int, None]:
        while not (yield "read"):
            pass

    now, waiting = iter([0.0, 1.0, 2.0, 2.1]), answered_within(gen(), 2.0, TimeoutError, clock=lambda: next(now))
    assert next(waiting) == "read"
    assert waiting.send(0) == "read"
    assert waiting.send(0) == "read"
    with pytest.raises(TimeoutError):
        waiting.send(0)


def test_a_program_that_ends_in_time() -> None:
    with tempfile.TemporaryFile() as output:
        code = run_within(["sh", "-c", "echo out; echo $A >&2; exit 3"], 60, late, env={"A": "err"}, output=output)
        output.seek(0)
        assert (code, output.read()) == (3, b"out\nerr\n")
    with pytest.raises(FileNotFoundError):
        run_within(["./nowhere"], 60, late)


def is_running(process: int) -> bool:
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return shown.stdout.strip() != "" and not shown.stdout.startswith("Z")


def killed(file: Path) -> bool:
    """Whether the process whose id is in the file ends soon."""
    child, until = int(file.read_text()), time.monotonic() + 20
    while is_running(child) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_running(child)


def with_child(file: Path) -> list[str]:
    """A program that starts another one, whose id it writes to the file, and waits for it."""
    return ["sh", "-c", f"sleep 60 & echo $! > {file}.part; mv {file}.part {file}; wait"]


def test_a_program_that_does_not_end_in_time_is_killed_with_its_children(tmp_path: Path) -> None:
    with pytest.raises(OutOfTimeError, match="it isn't there"):
        run_within(with_child(tmp_path / "child"), 3, late)
    assert killed(tmp_path / "child")


def test_a_program_is_killed_with_its_children_if_the_wait_is_interrupted(tmp_path: Path) -> None:
    code = f"from anabranch.deadlines import run_within; run_within({with_child(tmp_path / 'child')}, 60, TimeoutError)"
    waiting = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    wait_until(lambda: (tmp_path / "child").exists() or None, 60, late, 0.02)
    waiting.send_signal(signal.SIGINT)
    assert b"KeyboardInterrupt" in waiting.communicate(timeout=30)[1]
    assert killed(tmp_path / "child")
