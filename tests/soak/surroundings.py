"""What surrounds a job fails for a while, or has damaged its files: scenarios of long runs."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

from tests.acceptance.harness import LATE, TABLE, Workspace, flights
from tests.soak import recovery
from tests.soak.with_functions import in_turn
from tests.support.disks import mounted

__all__ = ["damaged", "disk_full"]

COUNT = 4000
FULL_SECONDS = 120.0
PLACES = ("lanes", "")
"""Folders below ``.anabranch`` that are disks of their own: the lanes alone, or lanes, streams and store together."""


def disk_full(seed: int, workspace: Workspace, seconds: float = FULL_SECONDS) -> str:
    """A disk is full for two minutes: the job says so, waits, and goes on by itself; all is exact."""
    several, functions = flights(seed, COUNT), in_turn(seed, len(PLACES), workspace)
    place = PLACES[seed % len(PLACES)]
    folder = workspace.folder / ".anabranch" / place
    folder.parent.mkdir(exist_ok=True)
    with mounted(folder, 64) as disk:
        assert disk is not None, "a disk can be mounted by root only"
        workspace.put(several[: COUNT // 2])
        begun = time.monotonic()
        process = workspace.start("run", "delays.py", job__max_rows_per_batch=200)
        process.until("a batch", lambda: workspace.committed("1-") >= 0)
        within = recovery.within(time.monotonic() - begun)
        if place:
            disk.fill()
            workspace.put(several[COUNT // 2 :])
            waits = "been waiting for room on a disk"
            process.until("a wait", lambda: waits in workspace.call("status", "delays").stdout)
        else:
            workspace.put(several[COUNT // 2 :])
            disk.fill()
        time.sleep(seconds)
        assert not process.ended, process.stderr
        before = _rows(workspace)
        disk.make_room()
        begun = time.monotonic()
        process.until("progress", lambda: _rows(workspace) > before)
        took = time.monotonic() - begun
        process.popen.send_signal(signal.SIGTERM)
        process.wait()
        assert took < within, f"it went on {took:.0f} s after there was room"
        workspace.finish()
        workspace.check_outputs(several)
    return f"{place or 'everything'}{functions} full for {seconds:.0f} s; it went on after {took:.1f} s"


def _rows(workspace: Workspace) -> int:
    return sum(sum(workspace.system.ends(stream).values()) for stream in (LATE, TABLE))


Harm = Callable[[Path], None]


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _gone(path: Path) -> None:
    path.unlink()


def _no_checksum(path: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _older(path: Path) -> None:
    """As a file, or all of its folder, is in a backup that is some batches old: the newest ones aren't there."""
    others = sorted((each for each in path.parent.glob("[0-9]*") if each.is_file()), key=_number)
    for each in others[-2:]:
        each.unlink()
        _no_checksum(each)


def _number(path: Path) -> int:
    return int(path.name.split(".")[0].split("_")[0])


HARMS: dict[str, Harm] = {
    "empty": _empty,
    "half": _half,
    "gone": _gone,
    "checksum gone": _no_checksum,
    "older copy": _older,
}
KINDS = {
    "offsets": "lanes/delays/1-*/1/offsets/[0-9]*",
    "commits": "lanes/delays/1-*/1/commits/[0-9]*",
    "offsets without state": "lanes/delays/0-*/1/offsets/[0-9]*",
    "commits without state": "lanes/delays/0-*/1/commits/[0-9]*",
    "changelog": "lanes/delays/1-*/1/state/0/0/[0-9]*.changelog",
    "query id": "lanes/delays/1-*/1/metadata",
    "schema": "lanes/delays/1-*/1/state/0/0/_metadata/schema",
    "operator": "lanes/delays/1-*/1/state/0/_metadata/metadata",
    "stream ids": "lanes/delays/0-*/1/streams.json",
    "start": "lanes/delays/0-*/1/starting.json",
    "output ends": "lanes/delays/0-*/1/outputs.json",
    "manifest of an output": f"streams/{LATE}/0/manifest/[0-9]*.json",
    "manifest of an input": "streams/flights/0/manifest/[0-9]*.json",
    "segment of an output": f"streams/{LATE}/0/segments/*.arrow",
    "store": "coordinator.db",
}


def damaged(seed: int, workspace: Workspace) -> str:
    """One kind of file is damaged in one way, by seed: the job goes on exactly, or one text says what is wrong."""
    kinds = [kind for kind, files in KINDS.items() if workspace.cluster is None or not files.startswith("streams/")]
    cases = [(kind, harm) for kind in kinds for harm in HARMS]
    kind, harm = cases[seed % len(cases)]
    several, functions = flights(seed, COUNT), in_turn(seed, len(cases), workspace)
    workspace.put(several[: COUNT // 2])
    workspace.finish(job__max_rows_per_batch=400)
    home = workspace.folder / ".anabranch"
    workspace.put(several[COUNT // 2 :])
    kept = shutil.copytree(home, workspace.folder / "kept")
    paths = sorted(home.glob(KINDS[kind]), key=lambda path: (len(path.name), path.name))
    path = paths[-1] if random.Random(seed).random() < 0.7 else random.Random(seed).choice(paths)
    HARMS[harm](path)

    process = workspace.start("run", "delays.py", "--available-now")
    code = process.wait()
    case = f"{kind} {harm}{functions} ({path.relative_to(home)})"
    assert "Traceback" not in process.stderr, f"{case}:\n{process.stderr}"
    if code == 0:
        workspace.check_outputs(several)
        return f"{case}: exact"
    assert process.stderr.count("error: ") == 1, f"{case}:\n{process.stderr}"
    error = process.stderr[process.stderr.index("error: ") :]
    assert "checkpoint" not in error, f"{case}: Spark advises to delete it:\n{error}"
    assert str(home) in error or home.name in error, f"{case}: no path in\n{error}"
    if workspace.cluster is not None and path.is_relative_to(home / "lanes"):
        home = Path(*path.parts[: len(home.parts) + 4])  # the other lane has gone on, and its records stay on Kafka
        kept /= home.relative_to(workspace.folder / ".anabranch")
    shutil.rmtree(home)
    kept.rename(home)
    workspace.finish()
    workspace.check_outputs(several)
    return f"{case}: {error.splitlines()[0]}"
