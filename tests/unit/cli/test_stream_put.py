"""``anabranch stream put`` that can't add all lines, or is interrupted: it says from which line to go on."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from anabranch.cli import json_lines
from anabranch.cli.stream import app
from anabranch.errors import AnabranchError, LogError, NotFoundError, UsageError
from anabranch.model.hashing import partitions_for
from anabranch.systems.embedded import LaneWriter, Log, disk
from tests.unit.systems.embedded.helpers import contents


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path / "streams")
    made.create("s", 2)
    return made


@contextlib.contextmanager
def started(config: Path, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-m", "anabranch", "stream", "put", "s", "--config", str(config), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(words, env=environment, **pipes)  # type: ignore[call-overload]
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stderr.close()


@pytest.fixture
def putting(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    with started(config) as process:
        yield process


@pytest.fixture
def keyed(config: Path) -> Iterator[subprocess.Popen[bytes]]:
    with started(config, "--key", "k") as process:
        yield process


def give(process: subprocess.Popen[bytes], lines: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(lines)
    process.stdin.flush()


def ended(process: subprocess.Popen[bytes], within: float = 60) -> tuple[int, str]:
    """The exit code, and what was printed."""
    assert process.stderr is not None
    code = process.wait(within)
    return code, process.stderr.read().decode()


def wait_for(what: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


def written(log: Log) -> int:
    return sum(tail.end for tail in log.ends("s").values())


def put(config: Path, source: Path) -> str:
    words = ["put", "s", "--file", str(source), "--config", str(config)]
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0
    return result.stderr


@contextlib.contextmanager
def held(log: Log, putting: subprocess.Popen[bytes]) -> Iterator[None]:
    """Inside ``with``, a ``put`` of four lines has written to partition 0, and can't write to partition 1."""
    with disk.try_exclusive(str(log.root / "s" / "1" / ".lock"), 1):
        give(putting, b"1\n2\n3\n4\n")
        wait_for(lambda: written(log) == 2)
        yield


@pytest.mark.parametrize(
    ("name", "kind", "told"),
    [("missing.jsonl", NotFoundError, "there is no file "), ("", UsageError, "can't be read: Is a")],
)
def test_a_file_that_cannot_be_read(config: Path, log: Log, name: str, kind: type[AnabranchError], told: str) -> None:
    with pytest.raises(kind, match=told):
        put(config, log.root / name)


def test_ctrl_c_while_put_waits_for_lines(putting: subprocess.Popen[bytes], log: Log) -> None:
    """The normal end of ``tail -f app.jsonl | anabranch stream put s``."""
    give(putting, b"1\n\n2\n3\n")
    wait_for(lambda: written(log) == 3)
    putting.send_signal(signal.SIGINT)
    code, told = ended(putting)
    assert (code, told) == (
        130,
        "s: 3 records written, of all lines before line 5; to go on, put the rest (tail -n +5)\n",
    )
    assert all(mark.closed for tail in log.ends("s").values() for mark in tail.writers.values())


def test_ctrl_c_while_put_writes_takes_effect_after_the_batch(putting: subprocess.Popen[bytes], log: Log) -> None:
    with held(log, putting):
        putting.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert putting.poll() is None
    code, told = ended(putting)
    assert code == 130
    assert "s: 4 records written, of all lines before line 5; to go on, put the rest (tail -n +5)\n" in told
    assert written(log) == 4


def test_a_second_ctrl_c_takes_effect_at_once(putting: subprocess.Popen[bytes], log: Log) -> None:
    with held(log, putting):
        putting.send_signal(signal.SIGINT)
        time.sleep(0.3)
        putting.send_signal(signal.SIGINT)
        code, told = ended(putting)
    assert code == 130
    assert told == (
        "s: 0 records written, of all lines before line 1; to go on, put the rest (tail -n +1): its first 4 records or "
        "so may be there twice\n"
    )


@contextlib.contextmanager
def held_at_the_end(log: Log, keyed: subprocess.Popen[bytes]) -> Iterator[None]:
    """Inside ``with``, a ``put`` has written three records to partition 0, and can't close in partition 1, where it has
    written nothing."""
    key = next(each for each in "abcdefgh" if partitions_for(pa.array([each.encode()]), 2)[0] == 0)
    with disk.try_exclusive(str(log.root / "s" / "1" / ".lock"), 1):
        give(keyed, f'{{"k": "{key}"}}\n'.encode() * 3)
        wait_for(lambda: written(log) == 3)
        yield


def wait_for_the_close(log: Log) -> None:
    wait_for(lambda: any(mark.closed for mark in log.ends("s")[0].writers.values()))
    time.sleep(0.3)


def test_ctrl_c_while_put_closes_ends_only_the_closing(keyed: subprocess.Popen[bytes], log: Log) -> None:
    with held_at_the_end(log, keyed):
        assert keyed.stdin is not None
        keyed.stdin.close()
        wait_for_the_close(log)
        keyed.send_signal(signal.SIGINT)
        code, told = ended(keyed, within=30)
    assert (code, written(log)) == (0, 3)
    assert "s: 3 records written\n" in told
    assert "not the mark that their writer is gone" in told


def test_a_second_ctrl_c_ends_the_closing(keyed: subprocess.Popen[bytes], log: Log) -> None:
    with held_at_the_end(log, keyed):
        time.sleep(0.3)
        keyed.send_signal(signal.SIGINT)
        wait_for_the_close(log)
        keyed.send_signal(signal.SIGINT)
        code, told = ended(keyed, within=30)
    assert code == 130
    assert "s: 3 records written, of all lines before line 4; to go on, put the rest (tail -n +4)\n" in told


def test_an_input_that_cannot_be_read(config: Path, log: Log, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "anabranch", "stream", "put", "s", "--config", str(config)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with open(tmp_path / "lines", "wb") as file:  # only for writing
        done = subprocess.run(words, stdin=file, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    assert "0 records written, of all lines before line 1; the input can't be read: Bad file descriptor" in done.stderr


def test_an_input_that_can_no_longer_be_read(
    config: Path, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def batches(_: int) -> Iterator[list[bytes]]:
        yield [b"1", b"2", b"3"]
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(json_lines, "batches", batches)
    (tmp_path / "lines").touch()
    with pytest.raises(AnabranchError) as caught:
        put(config, tmp_path / "lines")
    assert caught.value.what == (
        "3 records written, of all lines before line 4; the input can't be read: Input/output error"
    )
    assert "tail -n +4" in caught.value.cure


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x"), LogError("no", "do")])
def test_when_everything_is_written_a_failed_end_is_no_error(
    config: Path, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Otherwise, one would put everything a second time."""

    def close(*_: object) -> None:
        raise error

    monkeypatch.setattr(LaneWriter, "close", close)
    (tmp_path / "lines").write_text("1\n2\n3\n")
    assert "s: 3 records written" in put(config, tmp_path / "lines")
    (tmp_path / "lines").write_text("4\n{\n")
    with pytest.raises(AnabranchError, match=r"line 2 can't be put: .*; 1 record written[\s\S]*tail -n \+2"):
        put(config, tmp_path / "lines")
    assert written(log) == 4


def test_a_batch_of_which_the_log_takes_only_a_part(
    config: Path, log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "LOCKED_OUT_SECONDS", 1.0)
    (tmp_path / "lines").write_text("1\n2\n3\n4\n")
    lock = str(log.root / "s" / "1" / ".lock")
    begun = time.monotonic()
    with disk.try_exclusive(lock, 1), pytest.raises(AnabranchError) as caught:
        put(config, tmp_path / "lines")
    assert time.monotonic() - begun < 1.9, "waited for the same lock twice"
    assert caught.value.what.startswith(
        "2 records written, of all lines before line 1 and of 2 after that; only 2 of 4"
    )
    assert f"have held the lock {lock}" in caught.value.what
    assert f"`fuser {lock}`" in caught.value.cure
    assert caught.value.cure.endswith("(tail -n +1): its first 2 records or so will be there twice")
    assert len(contents(log, "s", 0)) == 2
