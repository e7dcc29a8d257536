"""A function that Python workers import. It holds its task at one flight, once, if it is told to."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import anabranch

HOLD_AT, NOTE = (os.environ.get(f"WITNESS_{name}", "") for name in ("HOLD_AT", "NOTE"))
"""The flight, by its origin; the file where the first task to come there says what it is, and goes no further."""


def marked(message: dict[str, Any]) -> dict[str, Any]:
    if message["origin"] == HOLD_AT and _first():
        while True:
            time.sleep(1)
    return {**message, "mark": f"{message['carrier']}-{message['origin']}"}


def _first() -> bool:
    try:
        with Path(NOTE).open("x") as note:
            note.write(json.dumps({"pid": os.getpid(), "anabranch": anabranch.__file__, "notes": __file__}) + "\n")
    except FileExistsError:
        return False
    return True
