"""Kills, races and freezes with lanes' folders on a store that has no locks: ``s3`` and ``hdfs``.
``python -m tests.soak.stores s3|hdfs [KILLS]`` kills one job that often in a row.

Which one a seed is: seeds that can be divided by four race, the ones after them freeze, and all others kill; but every
fourth one on HDFS lets that fail.
"""

from __future__ import annotations

import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from anabranch import crash_points
from tests.acceptance.harness import JOB, Process, Workspace, flights
from tests.support import hdfs, s3
from tests.support.interruption import interruptible

__all__ = ["copied", "killed_often", "on_hdfs", "on_s3", "scenario"]

COUNT = 6000
ROWS = {"job__max_rows_per_batch": 700}
LOST = 37
"""Of so many calls that write, one is carried out, and its answer lost."""
_STEPS = (crash_points.PLANNED, crash_points.PUBLISHED, crash_points.COMMITTED)
_MOST_SECONDS = 12.0
"""From the start of a process to a kill at no step."""
_PORTION, _BATCHES = 1000, 4
"""Records that come before each of many kills, and their batches."""


def on_s3(folder: Path, stack: ExitStack) -> Workspace:
    """A workspace whose storage root is on an S3 server of its own, of whose answers some are lost."""
    server = stack.enter_context(s3.serving(folder))
    proxy = stack.enter_context(s3.Proxy(server.port, loses=LOST))
    workspace = Workspace(folder, **server.settings(proxy.port), **ROWS)
    workspace.lanes = server.root / JOB
    return workspace


class OnHdfs(Workspace):
    """A workspace whose storage root is on an HDFS, which Hadoop's configuration names."""

    def __init__(self, folder: Path, server: hdfs.Server) -> None:
        super().__init__(folder, storage__root="hdfs:///lanes", **ROWS)
        self.environment["HADOOP_CONF_DIR"] = str(server.conf)
        self.server = server


def on_hdfs(folder: Path, stack: ExitStack) -> Workspace:
    """A workspace on an HDFS of its own."""
    return OnHdfs(folder, stack.enter_context(hdfs.serving(folder / "hdfs")))


def copied(workspace: Workspace, stack: ExitStack) -> Workspace:
    """Another workspace with a copy of the store, on the same streams and the same storage root."""
    folder = workspace.folder / "copy"
    folder.mkdir()
    streams = workspace.folder / ".anabranch" / "streams"
    shutil.copytree(streams.parent, folder / ".anabranch", ignore=shutil.ignore_patterns("streams", "lanes", "run"))
    twin = Workspace(folder, systems__embedded__root=streams, **workspace.settings)
    twin.environment |= workspace.environment
    stack.callback(twin.close)
    return twin


def scenario(seed: int, workspace: Workspace) -> str:
    """One thing a seed."""
    dice = random.Random(seed)
    several = flights(seed, COUNT)
    workspace.put(several)
    last = troubled if isinstance(workspace, OnHdfs) else killed
    how = (raced, frozen, killed, last)[seed % 4](dice, workspace)
    workspace.finish()
    workspace.check_outputs(several)
    return how


def killed(dice: random.Random, workspace: Workspace) -> str:
    """Three kills, each at a step or at any moment."""
    hold, process = _held(dice, workspace, dice.choice(_STEPS))
    process.kill()
    return "; ".join([f"at {hold}", *(_killed_at_any_moment(dice, workspace) for _ in range(2))])


def troubled(dice: random.Random, workspace: Workspace) -> str:
    """What befalls an HDFS, in the middle of a batch: safe mode, a full quota, no name node, or no data node. The job
    waits for as long as it takes, and counts no attempt.
    """
    assert isinstance(workspace, OnHdfs)
    server, away = workspace.server, dice.uniform(20, 60)
    hold, process = _held(dice, workspace, dice.choice(_STEPS), job__attempts=1)
    kind = dice.choice(("safe mode", "quota", "name node", "data node"))
    trouble: Callable[[bool], None] = {
        "safe mode": lambda on: server.safe_mode(on=on),
        "quota": lambda on: server.limit("/lanes", 1 if on else None),
        "name node": lambda on: server.name_node(on=not on),
        "data node": lambda on: server.data_node(on=not on),
    }[kind]
    trouble(True)
    process.release()
    time.sleep(away)
    trouble(False)
    code = process.wait()
    assert code == 0, process.stderr
    waited = re.findall(r"seconds=(\d+) waited_for='?HDFS", process.stderr)
    return f"{kind} for {away:.1f} s at {hold}, waited for it {', '.join(waited) or '0'} s"


def raced(dice: random.Random, workspace: Workspace) -> str:
    """Two processes with copies of the store start at once, after a kill: one of them goes on."""
    hold, process = _held(dice, workspace, dice.choice(_STEPS))
    process.kill()
    with ExitStack() as stack:
        twin = copied(workspace, stack)
        both = [_run(workspace), _run(twin)]
        codes = [each.wait() for each in both]
        said = "\n".join(each.stderr for each in both)
        assert sorted(codes) == [0, 4], f"they ended with {codes}:\n{said}"
        refused = both[codes.index(4)]
        assert "runs on" in refused.stderr, refused.stderr
        if codes[0] == 4:  # the other's store knows how far the job is
            _take_store(twin, workspace)
    return f"killed at {hold}, then {'the first' if codes[0] == 0 else 'the copy'} went on"


def frozen(dice: random.Random, workspace: Workspace) -> str:
    """A process is frozen in a batch before that is published; another one goes on; then the first wakes up."""
    hold, first = _held(dice, workspace, crash_points.PLANNED)
    first.freeze()
    with ExitStack() as stack:
        twin = copied(workspace, stack)
        second = twin.finish()
        ends = workspace.ends()
        first.release()
        first.wake()
        assert first.wait() == 4, first.stderr
        assert workspace.ends() == ends, "it has written when it woke up"
        assert "taken for dead" in second.stderr, second.stderr
        _take_store(twin, workspace)
    return f"frozen at {hold}"


def _take_store(twin: Workspace, workspace: Workspace) -> None:
    home = workspace.folder / ".anabranch"
    for path in home.glob("coordinator.db*"):
        path.unlink()
    for path in (twin.folder / ".anabranch").glob("coordinator.db*"):
        shutil.copy2(path, home / path.name)


def _killed_at_any_moment(dice: random.Random, workspace: Workspace, most: float = _MOST_SECONDS) -> str:
    process = _run(workspace)
    later = dice.uniform(0, most)
    time.sleep(later)
    if process.ended:
        return f"none in {later:.1f} s, when it had ended"
    process.kill()
    return f"after {later:.1f} s"


def _held(dice: random.Random, workspace: Workspace, step: str, **settings: Any) -> tuple[str, Process]:
    hold = f"{dice.choice((0, 1))}-:{step}:{dice.randint(0, 4)}"
    process = _run(workspace, hold, **settings)
    process.held()
    return hold, process


def _run(workspace: Workspace, hold: str = "", **settings: Any) -> Process:
    return workspace.start("run", f"{workspace.job}.py", "--available-now", hold=hold, **settings)


def killed_often(seed: int, workspace: Workspace, kills: int) -> str:
    """So many kills in a row, each third one at a step, the others at any moment. Records come before each."""
    dice = random.Random(seed)
    several = flights(seed, _PORTION * (kills + 1))
    workspace.settings["job__max_rows_per_batch"] = _PORTION // _BATCHES
    told: Counter[str] = Counter()
    longest = _MOST_SECONDS
    for number in range(kills):
        workspace.put(several[number * _PORTION :][:_PORTION])
        if number % 3 == 0:
            hold = f"{dice.choice((0, 1))}-:{dice.choice(_STEPS)}:0+"
            process = _run(workspace, hold)
            begun = time.monotonic()
            process.held()
            longest = 0.5 * longest + 0.5 * 1.3 * (time.monotonic() - begun)
            process.kill()
            told[hold.split(":")[1]] += 1
        else:
            said = _killed_at_any_moment(dice, workspace, longest)
            told["after its end" if said.startswith("none") else "any moment"] += 1
        print(f"{number + 1} kills: {dict(told)}", flush=True)
    workspace.put(several[kills * _PORTION :])
    workspace.finish()
    workspace.check_outputs(several)
    return f"{kills} kills: {dict(told)}; {len(several)} records are right"


def main(kind: str, kills: int, seed: int) -> None:
    """Kill a job, in a folder that stays if it went wrong."""
    interruptible()
    folder = Path(tempfile.mkdtemp(prefix=f"anabranch-{kind}-"))
    with ExitStack() as stack:
        workspace = (on_s3 if kind == "s3" else on_hdfs)(folder, stack)
        stack.callback(workspace.close)
        print(f"{killed_often(seed, workspace, kills)}", flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    _kills, _seed = [*map(int, sys.argv[2:]), *(40, 0)[len(sys.argv) - 2 :]]
    main(sys.argv[1], _kills, _seed)
