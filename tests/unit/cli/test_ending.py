"""How the process of a command ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from anabranch.cli.main import app

SOURCE = """
import atexit
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from time import sleep

from anabranch.cli import main

def late():
    sleep(0.2)
    print("thread", flush=True)

pool = ThreadPoolExecutor()  # nobody shuts it down
pool.submit(print, "pool", flush=True).result()
Thread(target=late).start()
atexit.register(print, "registered")
main.__globals__["called"] = lambda: 3
main()
"""


def test_it_ends_with_its_code_when_threads_have_ended_and_what_was_registered_is_done() -> None:
    done = subprocess.run([sys.executable, "-c", SOURCE], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (3, ["pool", "thread", "registered"], "")


BUFFERED = """
from anabranch.cli import main
main.__globals__["app"] = lambda standalone_mode: print("printed")
main()
"""


@pytest.mark.parametrize("words", [["-m", "anabranch", "--version"], ["-c", BUFFERED]])
def test_what_cannot_be_printed_is_an_error(words: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=env
        )
    assert (done.returncode, done.stderr) == (
        1,
        "error: No space left on device\n  ANABRANCH_LOG=debug shows where\n",
    )


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_like_the_null_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    def run(verb: str) -> tuple[int, str, str]:
        command = ["sh", "-c", f'"$0" -m anabranch stream {verb} {closed}', sys.executable]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
        return done.returncode, done.stdout, done.stderr

    monkeypatch.chdir(tmp_path)
    CliRunner().invoke(app, ["stream", "create", "flights", "--partitions", "1"], catch_exceptions=False)
    no_input, no_output, no_errors = (each in closed.split() for each in ("<&-", ">&-", "2>&-"))
    assert run("list") == (0, "" if no_output else "flights\t1\n", "")
    refusal = "error: the standard input is closed\n  pipe JSON lines into the command, or name a file with --file\n"
    told = refusal if no_input else "flights: 0 records written\n"
    assert run("put flights") == (2 if no_input else 0, "", "" if no_errors else told)


CHILD = """
import subprocess
from anabranch.cli import main
def app(standalone_mode):
    with open("ours", "w") as ours:
        subprocess.run(["sh", "-c", "echo out; echo err >&2"], check=True)
main.__globals__["app"] = app
main()
"""


def test_what_other_processes_print_where_a_stream_is_closed_is_lost(tmp_path: Path) -> None:
    command = ["sh", "-c", '"$0" -c "$1" >&- 2>&-', sys.executable, CHILD]
    subprocess.run(command, cwd=tmp_path, timeout=60, check=True)
    assert (tmp_path / "ours").read_text() == ""


REFUSED = """
import sys
from pathlib import Path

from anabranch.cli import main

def refused(path):
    raise PermissionError(13, "Permission denied", str(path))

Path.read_bytes = refused
main()
"""


@pytest.mark.parametrize("level", ["warning", "debug"])
def test_a_file_that_cannot_be_read_is_named_and_where_that_was_is_shown_if_asked_for(
    tmp_path: Path, level: str
) -> None:
    job = tmp_path / "job.py"
    job.write_text("")
    command = [sys.executable, "-c", REFUSED, "plan", str(job)]
    env = {**os.environ, "ANABRANCH_LOG": level}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env)
    told = f"error: {job}: Permission denied\n  ANABRANCH_LOG=debug shows where\n"
    assert (done.returncode, done.stdout, done.stderr.startswith(told)) == (1, "", True)
    assert ("Traceback" in done.stderr) is (level == "debug")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_coordinator_ends_as_it_is_told_to(tmp_path: Path, number: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "anabranch", "coordinator", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        assert any("Ctrl-C ends the coordinator" in line for line in process.stderr)
        process.send_signal(number)
        _, printed = process.communicate(timeout=60)
    assert (process.returncode, "Traceback" in printed) == (code, False)
