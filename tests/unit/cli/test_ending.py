"""How the process of a command ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
