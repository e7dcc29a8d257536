"""How the process of a command ends."""

from __future__ import annotations

import subprocess
import sys

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
