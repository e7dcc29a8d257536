"""Temporary folders: gone when their process ends in order, and swept by the next one when it was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import scratch

HOLDS = """
import sys, time
from anabranch import scratch
made = scratch.folder("clocks")
(made / "file").write_text("x")
print(made, flush=True)
if sys.argv[1] == "waits":
    time.sleep(60)
"""


def process(place: Path, what: str) -> tuple[subprocess.Popen[str], Path]:
    begun = subprocess.Popen(
        [sys.executable, "-c", HOLDS, what],
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert begun.stdout is not None
    return begun, Path(begun.stdout.readline().strip())


def test_it_is_gone_when_its_process_ends(tmp_path: Path) -> None:
    ended, made = process(tmp_path, "ends")
    assert ended.wait() == 0
    assert made.parent.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_has_left_is_removed_by_the_next_and_nothing_else_is(tmp_path: Path) -> None:
    killed, left = process(tmp_path, "waits")
    lives, held = process(tmp_path, "waits")
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        others = [tmp_path / "anabranch-not-ours", tmp_path / f"anabranch-{os.getuid() + 1}-of-another-user"]
        for each in others:
            each.mkdir()
        assert (left / "file").exists()
        assert scratch.sweep(tmp_path) == [left.parent]
        assert not left.parent.exists()
        assert (held / "file").exists()
        assert all(each.exists() for each in others)
        assert scratch.sweep(tmp_path) == []
        process(tmp_path, "ends")[0].wait()
        assert (held / "file").exists()
    finally:
        lives.kill()
        lives.wait()


def test_a_fork_leaves_its_parent_s_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = """
import os, sys
from anabranch import scratch
made = scratch.folder("a")
child = os.fork()
if not child:
    assert scratch.folder("b").parent != made.parent
    sys.exit(0)
os.waitpid(child, 0)
print(made.exists(), flush=True)
"""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout.strip() == "True"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_finished_is_removed_and_unlocked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = """
from pathlib import Path
from anabranch import scratch

def fails(*_):
    raise OSError("no space left")

rename, Path.rename = Path.rename, fails
before = len(list(Path("/proc/self/fd").iterdir()))
try:
    scratch.folder("clocks")
except OSError:
    Path.rename = rename
print(len(list(Path("/proc/self/fd").iterdir())) - before, scratch.folder("clocks"))
"""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert told.startswith("0 ")
    assert list(tmp_path.iterdir()) == []
