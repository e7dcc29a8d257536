"""A process that was frozen can't write when it wakes up, even if the machine has slept or its clock was set."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import hadoop
from tests.support.paths import ROOT

FILES = ROOT / "src" / "anabranch" / "spark" / "internals" / "CheckpointFiles.java"
LEASES = ROOT / "tests" / "support" / "Leases.java"
ENDS = {
    "999,999": "false",
    "1001,1001": "true",
    "1,1001": "true",  # the machine has slept, or its clock was set forward
    "999,-90000": "false",  # the clock was set back
    "1001,-90000": "true",
}
"""Whether a lease of 1000 ms is over, by how many ms both clocks have advanced: the monotonic one, the time of day."""


def test_a_lease_ends_by_either_clock(tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no javac here")
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-cp",
        f"{hadoop.JARS}/*",
        str(LEASES),
        str(FILES),
        str(tmp_path),
        *ENDS,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert dict(zip(ENDS, said, strict=False)) == ENDS
    done = ["written", "renamed", "deleted"]
    assert said[len(ENDS) :] == [*done, *done, *["ANABRANCH_LEASE_OVER"] * len(done)]
