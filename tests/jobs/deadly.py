"""Some records kill the Python worker that works on them, each in its way; the file ``killers`` has their numbers."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path
from typing import Any

from anabranch import Job

job = Job("deadly")
KILLERS = {int(line) for line in (Path(__file__).parent / "killers").read_text().split()}


def deadly(message: dict[str, Any]) -> dict[str, Any]:
    if message["n"] in KILLERS:
        match message["n"] % 3:
            case 0:
                os._exit(1)
            case 1:
                ctypes.string_at(0)
            case _:
                os.kill(os.getpid(), signal.SIGKILL)
    return {"n": message["n"] + 1}


numbers = job.read("numbers", key="k string", schema="n int", name="numbers")
numbers.map(deadly, name="deadly").write("followed")
