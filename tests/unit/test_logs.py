"""What a process logs, and what it takes to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import datetime, timedelta

import pytest

from anabranch import logs

ANABRANCH = [sys.executable, "-m", "anabranch"]

SAYS = """
import sys
from anabranch import logs
{before}
log = logs.get_logger()
{after}
log.info("what happens")
log.warning("what is odd", lane="L")
"""
TO_STDERR = 'logs.to_stderr("{level}")'


def said(before: str = "", after: str = "") -> tuple[str, str]:
    run = [sys.executable, "-c", SAYS.format(before=before, after=after)]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    return done.stdout, done.stderr


def test_messages_from_a_level_on_come_out_on_stderr() -> None:
    warning, info = TO_STDERR.format(level="warning"), TO_STDERR.format(level="info")
    for printed, log in (said(before=warning), said(after=warning)):
        assert printed == ""
        assert "what is odd" in log
        assert "lane=L" in log
        assert "what happens" not in log
    assert "what happens" in said(before=info)[1]


def test_settings_of_others_are_left_alone() -> None:
    theirs = "import structlog; structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stdout))"
    printed, log = said(before=theirs)
    assert "what is odd" in printed
    assert log == ""


def test_a_verb_that_only_asks_imports_nothing_to_log_with() -> None:
    asks = "import sys, anabranch.cli.main, anabranch.cli.drain, anabranch.cli.scale, anabranch.cli.status"
    found = f"{asks}; print([name for name in ('structlog', 'sqlalchemy', 'pyspark') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", found], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


BREAKS = """
from anabranch import logs
logs.to_stderr("warning", {form!r})
def broken(headers):
    raise ValueError("it broke")
try:
    broken({{"authorization": "planted" + "-token"}})
except ValueError:
    logs.get_logger().exception("a request failed")
"""


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_has_no_values_of_variables(form: str) -> None:
    """Those of a request have its token."""
    done = subprocess.run([sys.executable, "-c", BREAKS.format(form=form)], capture_output=True, text=True, check=True)
    assert "ValueError: it broke" in done.stderr
    assert "in broken" in done.stderr
    assert "planted-token" not in done.stderr


TOLD = """
import signal
from anabranch import logs
signal.signal(signal.SIGALRM, lambda *_: logs.say("told"))
signal.setitimer(signal.ITIMER_REAL, 0.3)
for _ in range(2_000):
    logs.say("at work " * 20)
print("done")
"""


def test_a_signal_can_be_told_of_while_another_line_is_written() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-c", TOLD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        time.sleep(1)  # nobody reads, so that the process waits in the middle of a line when the signal comes
        printed, log = process.communicate(timeout=60)
    assert (process.returncode, printed) == (0, b"done\n"), log[-2000:]
    assert log.count(b"told") == 1
    assert log.count(b"at work") == 2_000 * 20


JSON = 'logs.to_stderr("info", "json")'
EVENTS = """
import threading
from anabranch.cli import progress
logs.bind(job="delays")
def lane():
    logs.bind(job="delays", lane="0-a", epoch=4)
    logs.bind(batch=7)
    log.warning("what is odd", lane="0-b", path="/ü", error='two\\nlines "quoted"')
thread = threading.Thread(target=lane); thread.start(); thread.join()
progress.say("warning: two\\nlines")
progress.say("started")
logs.say("lane 0-a failed:\\nTraceback", level="error")
try:
    secret = "hunter2"
    raise ValueError("no")
except ValueError:
    log.exception("it failed")
log.debug("not shown")
"""


def test_json_is_one_object_a_line_and_knows_lane_batch_and_epoch() -> None:
    run = [sys.executable, "-c", f"from anabranch import logs\n{JSON}\nlog = logs.get_logger()\n{EVENTS}"]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stderr.splitlines()]
    for each in events:
        assert datetime.fromisoformat(each.pop("timestamp")).utcoffset() == timedelta()
    trace = events[4].pop("exception")
    assert trace.endswith("ValueError: no")
    assert "hunter2" not in done.stderr
    odd = {"event": "what is odd", "level": "warning", "path": "/ü", "error": 'two\nlines "quoted"'}
    assert events == [
        {**odd, "job": "delays", "lane": "0-b", "epoch": 4, "batch": 7},
        {"job": "delays", "event": "two\nlines", "level": "warning"},
        {"job": "delays", "event": "started", "level": "info"},
        {"job": "delays", "event": "lane 0-a failed:\nTraceback", "level": "error"},
        {"job": "delays", "event": "it failed", "level": "error"},
    ]


def test_a_verb_that_fails_says_so_in_json() -> None:
    env = {**os.environ, "ANABRANCH_LOG_FORMAT": "JSON"}
    done = subprocess.run([*ANABRANCH, "run", "gone.py"], capture_output=True, text=True, check=False, env=env)
    (event,) = map(json.loads, done.stderr.splitlines())
    assert (done.returncode, event["level"]) == (3, "error")
    assert "gone.py" in event["event"]


@pytest.mark.parametrize("variable", ["ANABRANCH_LOG", "ANABRANCH_LOG_FORMAT"])
def test_a_level_or_format_that_there_is_not_is_refused(variable: str) -> None:
    env = {**os.environ, variable: "loud"}
    done = subprocess.run([*ANABRANCH, "jobs"], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {variable} is loud\n  set it to one of ")


NOWHERE = """
import os, sys, threading
from anabranch import logs
logs.to_stderr("info", {form!r})
log = logs.get_logger()
log.warning("before")
{gone}
log.warning("lost")
logs.say("lost, too")
print("goes on")
"""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("form", logs.FORMATS)
@pytest.mark.parametrize(
    "gone",
    [
        "sys.stderr.close()",
        "os.close(2)",
        "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)",
        "r, w = os.pipe(); os.dup2(w, 2); os.close(w); os.close(r)",
    ],
)
def test_a_log_that_cannot_be_written_stops_nothing(gone: str, form: str, unbuffered: str) -> None:
    """Seen: a lane failed as a line of its log couldn't be written; and a process exited with 120."""
    run = [sys.executable, "-c", NOWHERE.format(form=form, gone=gone)]
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(run, capture_output=True, text=True, check=False, env=env)
    assert (done.returncode, done.stdout) == (0, "goes on\n")
    assert "before" in done.stderr
    assert "lost" not in done.stderr


REPLACED = """
from contextlib import redirect_stderr
from io import StringIO
from anabranch import logs
with redirect_stderr(StringIO()) as first:
    logs.to_stderr("warning")
    log = logs.get_logger()
    log.warning("sooner")
log.warning("later")
assert "sooner" in first.getvalue()
"""


def test_a_stderr_that_is_replaced_gets_what_comes_then() -> None:
    done = subprocess.run([sys.executable, "-c", REPLACED], capture_output=True, text=True, check=True)
    assert "later" in done.stderr
    assert "sooner" not in done.stderr
