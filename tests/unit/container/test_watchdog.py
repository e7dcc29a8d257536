"""A container that has to end and hangs is ended, and so is one whose Java process is gone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import FencedError

HANGS = """
import sys, threading
from anabranch.container import watchdog
ended, out = threading.Event(), sys.argv[1]
if out == "no stderr":
    sys.stderr.close()
watchdog.watch(lambda: "its seat is lost" if out != "lives" else "", ended, lambda: 0.2)
def hanging_for_ever():
    threading.Event().wait(0.6 if out == "lives" else 60)
if out == "stops":
    ended.set()
else:
    hanging_for_ever()
"""


@pytest.mark.parametrize(
    ("how", "code"),
    [("hangs", FencedError.exit_code), ("no stderr", FencedError.exit_code), ("stops", 0), ("lives", 0)],
)
def test_who_must_stop_and_doesn_t_is_ended(how: str, code: int) -> None:
    ran = subprocess.run([sys.executable, "-c", HANGS, how], capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode == code
    if how == "hangs":
        assert "error: its seat is lost\n  it didn't stop in time" in ran.stderr
        assert "hanging_for_ever" in ran.stderr
    else:
        assert ran.stderr == ""


TOLD = """
import time
from anabranch.cli import connect, container
def hanging_for_ever(*_):
    print("here", flush=True)
    time.sleep(60)
connect.at, container.STOPS_WITHIN = hanging_for_ever, 0.2
container.container("delays")
"""


def test_a_container_that_is_told_to_end_and_hangs_is_ended(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TOLD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=50)
    assert process.returncode == 1
    assert "error: the container was told to end\n  it didn't stop in time" in said
    assert "hanging_for_ever" in said


GONE_TOO = """
import signal, sys
from anabranch.cli import connect, container, replacing
from anabranch.cli.main import started_with
made = []
class Kept(replacing.Replacer):
    def __init__(self):
        super().__init__()
        made.append(self)
replacing.Replacer = Kept
def signalled_with_java(*_):
    signal.raise_signal(signal.Signals[sys.argv[1]])
    made[0].take_java(lambda: None, is_child=True)
    made[0].replace("Java is gone")
connect.at = signalled_with_java
started_with[:] = sys.orig_argv[1:]
container.container("delays")
"""


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 0), ("SIGINT", 130)])
def test_a_container_that_is_told_to_end_together_with_java_ends(name: str, code: int, tmp_path: Path) -> None:
    words = [sys.executable, "-c", GONE_TOO, name]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert ran.returncode == code, ran.stderr
    assert [line.partition(",")[0] for line in ran.stderr.splitlines()] == [
        "stopping; a second signal",
        "no new process follows",
    ]


GONE = """
import subprocess, sys, threading
from types import SimpleNamespace
from anabranch.container import watchdog
from anabranch.spark.internals import java_process
java = subprocess.Popen(["sleep", "30"])
spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=java)))
ended = threading.Event()
watchdog.watch_java(lambda: java_process.is_gone(spark), ended, lambda _: None)
threading.Event().wait(0.3)
if sys.argv[1] == "ended":
    ended.set()
if sys.argv[1] == "no stderr":
    sys.stderr.close()
java.kill()
threading.Event().wait(1.0 if sys.argv[1] == "ended" else 60)
"""


@pytest.mark.parametrize(("how", "code"), [("killed", 1), ("no stderr", 1), ("ended", 0)])
def test_a_container_whose_java_process_is_gone_ends(how: str, code: int) -> None:
    ran = subprocess.run([sys.executable, "-c", GONE, how], capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode == code, ran.stderr
    assert ("the Java process of Spark has ended" in ran.stderr) == (how == "killed")


NOT_REPLACED = """
from anabranch.container import watchdog
def fails(why):
    raise FileNotFoundError(2, "No such file or directory", "/venv/bin/python")
watchdog.end_without_java(fails)
"""


def test_why_a_process_could_not_be_replaced_is_told() -> None:
    ran = subprocess.run([sys.executable, "-c", NOT_REPLACED], capture_output=True, text=True, timeout=50, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith(
        "error: the Java process of Spark has ended, and this process couldn't be replaced: FileNotFoundError: "
        "[Errno 2] No such file or directory: '/venv/bin/python'\n  was it killed for its memory?"
    )


NO_PYTHON = """
import sys
from anabranch.cli.main import started_with
from anabranch.cli.replacing import Replacer
from anabranch.container.restarts import Restarts
started_with[:] = sys.orig_argv[1:]
replacer = Replacer()
sys.executable = "/venv/bin/python"
replacer.within(0.0, Restarts.of_text("").after("", {}, "Java is gone"))
import threading
threading.Event().wait(30)
"""


def test_a_process_that_cannot_be_replaced_ends_and_says_so(tmp_path: Path) -> None:
    words = [sys.executable, "-c", NO_PYTHON]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=50, check=False, cwd=tmp_path)
    assert ran.returncode == 1
    assert "a new process follows: Java is gone" in ran.stderr
    assert "error: the new process couldn't be started: [Errno 2] No such file or directory" in ran.stderr
    assert "\n  see that this Python is still in its place" in ran.stderr
