"""A process is replaced under its pid and with its words, and knows that it was."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import json, os, sys, threading, time
from anabranch.cli.main import started_with
from anabranch.cli.replacing import Replacer
from anabranch.container.restarts import Restarts

how, log = sys.argv[1:]
started_with[:] = [] if how == "imported" else sys.orig_argv[1:]
replacer = Replacer(may=how != "never")
with open(log, "a") as file:
    here = [replacer.restarts.number, replacer.restarts.why, "ANABRANCH_RESTARTS" in os.environ]
    file.write(json.dumps([os.getpid(), *here]) + "\\n")
replacer.take_java(lambda: None, is_child=how != "submitted")
replacer.take_lanes(lambda: {"0-a": 4})
if how == "hangs":
    if replacer.restarts.number == 0:
        replacer.within(0.2, Restarts(1, {}, "it hung"))
        time.sleep(30)
    sys.exit(7)
if how == "thread":
    threading.Thread(target=replacer.replace, args=["Java is gone"]).start()
    time.sleep(1)
replacer.replace("Java is gone")
sys.exit(3)
"""


def run(how: str, folder: Path) -> tuple[int, list[list[object]]]:
    """The exit code, and what each process has noted."""
    log = folder / "log"
    words = [sys.executable, "-c", SCRIPT, how, str(log)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in ended.stderr, ended.stderr
    return ended.returncode, [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("how", ["at once", "thread"])
def test_it_is_replaced_under_its_pid_twice_without_progress(how: str, tmp_path: Path) -> None:
    code, noted = run(how, tmp_path)
    assert code == 3
    assert len({pid for pid, *_ in noted}) == 1
    assert [rest for _, *rest in noted] == [[0, "", False], [1, "Java is gone", False], [2, "Java is gone", False]]


@pytest.mark.parametrize("how", ["imported", "never", "submitted"])
def test_nobody_elses_process_is_replaced(how: str, tmp_path: Path) -> None:
    code, noted = run(how, tmp_path)
    assert (code, len(noted)) == (3, 1)


def test_one_that_does_not_come_to_its_end_is_replaced_all_the_same(tmp_path: Path) -> None:
    code, noted = run("hangs", tmp_path)
    assert (code, [number for _, number, *_ in noted]) == (7, [0, 1])


CHANGED = """
import os, sys
from anabranch.cli.main import started_with
from anabranch.cli.replacing import Replacer

started_with[:] = sys.orig_argv[1:]
replacer = Replacer()
print(os.environ.get("CHANGED"), *sys.argv[1:], flush=True)
os.environ["CHANGED"] = "here"
replacer.take_java(lambda: None, is_child=True)
replacer.is_done("--once")
replacer.replace("it broke")
"""


def test_it_begins_as_the_former_one_did_but_for_what_is_done() -> None:
    words = [sys.executable, "-c", CHANGED, "--once", "job.py"]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ended.stdout.splitlines() == ["None --once job.py", "None job.py", "None job.py"], ended.stderr


TOLD = """
import os, signal, sys, threading
from types import SimpleNamespace
from anabranch.cli import replacing
from anabranch.cli.main import started_with
from anabranch.container.restarts import Restarts
from anabranch.errors import JobFailedError
from anabranch.spark.session import session

how, number = sys.argv[1], int(sys.argv[2])
print("begins", flush=True)
started_with[:] = sys.orig_argv[1:]
replacer = replacing.Replacer()

def told():
    replacer.told_to_end(number)

def in_session():
    import subprocess
    java = subprocess.Popen(["sleep", "30"])
    spark = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=SimpleNamespace(proc=java)))
    def stop(_):
        if how == "Java goes while Spark stops":
            java.kill()
            raise ConnectionRefusedError("by Java")
    session.start, session.stop = lambda *_: spark, stop
    with replacer.session(None, "", None, 1, threading.Event()):
        told()
        if how == "Java goes":
            java.kill()
            threading.Event().wait(30)
        if how == "Java goes after the lanes":
            threading.Timer(1.5, java.kill).start()
            raise JobFailedError("a lane has failed: SparkContext was shut down")

if how.startswith("Java goes"):
    in_session()
replacer.take_java(lambda: None, is_child=True)
if how == "before":
    told()
    replacer.replace("Java is gone")
if how == "a moment later":
    replacing.TOLD_WITHIN = 60
    threading.Timer(0.2, told).start()
    replacer.replace("Java is gone")
if how == "while it hangs":
    replacer.within(0.2, Restarts(1, {}, "it hung"))
    told()
    threading.Event().wait(30)
"""


@pytest.mark.parametrize(
    ("how", "number", "code"),
    [
        ("before", signal.SIGTERM, 0),
        ("before", signal.SIGINT, 130),
        ("a moment later", signal.SIGTERM, 0),
        ("while it hangs", signal.SIGTERM, 0),
        ("Java goes", signal.SIGTERM, 0),
        ("Java goes while Spark stops", signal.SIGINT, 130),
        ("Java goes after the lanes", signal.SIGTERM, 0),
    ],
)
def test_one_that_was_told_to_end_ends_and_is_not_replaced(how: str, number: int, code: int) -> None:
    words = [sys.executable, "-c", TOLD, how, str(int(number))]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (code, "begins\n"), ended.stderr
    *errors, said = ended.stderr.splitlines()
    failed = how == "Java goes after the lanes"
    assert errors == (["error: a lane has failed: SparkContext was shut down"] if failed else [])
    assert said.startswith("no new process follows, as this one was told to end: ")
    assert said.endswith("; the next start finishes its batches")


STOPPING = """
import sys
from anabranch.cli.main import started_with
from anabranch.cli.replacing import Replacer

print("begins", flush=True)
started_with[:] = sys.orig_argv[1:]
replacer = Replacer()
replacer.take_java(lambda: None, is_child=True)
replacer.take_lanes(dict, is_stopping=lambda: True)
replacer.replace("Java is gone")
sys.exit(3)
"""


def test_one_whose_job_is_to_stop_is_not_replaced() -> None:
    words = [sys.executable, "-c", STOPPING]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (3, "begins\n"), ended.stderr
