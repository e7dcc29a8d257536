"""What functions are at is told while they are, and no longer."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

from anabranch.spark import working
from anabranch.spark.working import Work

ORIGIN = pa.array(
    [{"task": 0, "source": 3, "partition": 1, "offset": 40 + n, "key": b"k", "bucket": n} for n in range(3)]
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(working, "_EVERY", 0.02)
    monkeypatch.setattr(working, "_FRESH", 5.0)


def told(file: str) -> Work | None:
    end = time.monotonic() + 5
    while (found := working.oldest(file)) is None and time.monotonic() < end:
        time.sleep(0.01)
    return found


def test_a_message_that_takes_long_is_named_until_it_is_done(tmp_path: Path) -> None:
    file = str(tmp_path / "lane.clock.working")
    with working.on(file, "map 'slow'", ORIGIN, 4):
        working.at(0)
        working.at(2)
        found = told(file)
        assert found is not None
        assert (found.label, found.source, found.partition, found.offset, found.bucket) == ("map 'slow'", 3, 1, 42, 2)
    end = time.monotonic() + 5
    while working.oldest(file) is not None:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_where_nobody_looks_nothing_is_told(tmp_path: Path) -> None:
    with working.on("", "map", ORIGIN, 1):
        working.at(1)
    with working.on(str(tmp_path / "gone" / "lane"), "map", ORIGIN, 1):
        time.sleep(0.1)
    assert list(tmp_path.iterdir()) == []


ENDS = """
import ctypes, sys, time
import pyarrow as pa
from anabranch.spark import working

working._EVERY = 0.05
origin = pa.array([{"source": 0, "partition": 0, "offset": 7, "key": b"k", "bucket": 0}])
with working.on("", "map 'slow'", origin, 1, 0.5):
    working.at(0)
    if sys.argv[1] == "held":
        ctypes.PyDLL(None).sleep(60)  # without giving Python's lock back
    time.sleep(60)
"""


@pytest.mark.parametrize(("how", "code"), [("free", working._LATE), ("held", 1)])
def test_a_worker_in_which_a_message_takes_too_long_ends(how: str, code: int) -> None:
    """Also if no other thread of it can run."""
    done = subprocess.run([sys.executable, "-c", ENDS, how], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == code, done.stderr
    assert ("map 'slow' takes too long" in done.stderr) == (how == "free")


GOES_ON = """
import time
import pyarrow as pa
from anabranch.spark import working

working._EVERY = 0.05
origin = pa.array([{"source": 0, "partition": 0, "offset": n, "key": b"k", "bucket": 0} for n in range(20)])
with working.on("", "map 'quick'", origin, 1, 3.0):
    for index in range(20):
        working.at(index)
        time.sleep(0.2)
with working.on("", "map 'quick'", origin, 1, 3.0):
    pass  # sooner than anybody looks
time.sleep(4)
"""


def test_a_worker_that_is_within_its_limit_goes_on() -> None:
    """Though it works longer on many messages; and nothing is left to end it afterwards."""
    done = subprocess.run([sys.executable, "-c", GOES_ON], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
