"""Outputs in tables and functions under all that can befall a container: for each kind the same, one thing a seed."""

from __future__ import annotations

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from anabranch import crash_points
from tests.acceptance.harness import LATE, NARROW, TABLE, Workspace, flights
from tests.jobs import numbered
from tests.soak import drained, failover, scaled, tabled
from tests.soak.tabled import FunctionWorkspace, TabledWorkspace
from tests.support import postgres
from tests.support.disks import Disk, mounted

COUNT, SMALL, LARGER = 12_000, 1000, 4000
_AWAY = 3.0
_STEPS = (crash_points.STAGED, crash_points.NAMED, crash_points.PLANNED, crash_points.PUBLISHED, crash_points.COMMITTED)


def killed(seed: int, workspace: TabledWorkspace) -> str:
    """SIGKILL at a step of a lane, then at another one of another lane; then the rest, and once more nothing."""
    dice = random.Random(seed)
    several = flights(seed, COUNT)
    workspace.put(several, pieces=dice.choice([1, 3]))
    told = []
    points = [(0, dice.choice(_STEPS[:2]), dice.randint(1, 2)), (1, dice.choice(_STEPS[:2]), dice.randint(4, 6))]
    points.append((dice.randrange(2), dice.choice(_STEPS[2:]), 8))
    for stage, step, batch in points:
        hold = f"{stage}-:{step}:{batch}+"
        process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=SMALL)
        process.held()
        process.kill()
        told.append(hold)
    workspace.finish(job__max_rows_per_batch=LARGER)
    workspace.check_outputs(several)
    before = {output: len(workspace.rows(output)) for output in (LATE, TABLE)}
    workspace.finish()
    assert before == {output: len(workspace.rows(output)) for output in (LATE, TABLE)}
    return f"killed at {', '.join(told)}"


def frozen(seed: int, workspace: TabledWorkspace) -> str:
    """SIGSTOP inside a commit; another container takes over and ends the job; then the first one wakes and goes on."""
    dice = random.Random(seed)
    served = failover.Served(workspace, COUNT, seed)
    stage = dice.randrange(2)
    hold = f"{stage}-:{dice.choice(_STEPS[:3])}:{dice.randint(4, 6) if stage else dice.randint(1, 3)}+"
    served.start()
    first = failover.replaced_while_frozen(served, hold)
    served.check()
    first.wake()
    failover.ended_fenced(first, by_itself=isinstance(workspace, FunctionWorkspace))
    served.check()
    return f"frozen at {hold}"


def retried(seed: int, workspace: TabledWorkspace) -> str:
    """A Spark task that has written already fails once, and is run again."""
    failing = workspace.folder / "fail-once"
    failing.touch()
    mine = workspace.running(numbered.EXACTLY, "exact")
    mine.settings |= {"job__on_error": "fail", "job__factor": 16, "spark__master": "local[3,4]"}
    try:
        numbered.put(mine, COUNT // 4)
        mine.finish(job__max_rows_per_batch=SMALL, spark__conf=NARROW, env={"EXACTLY_FAIL_ONCE": str(failing)})
        assert not failing.exists()
        seen = Counter((row["stream"], row["customer"], row["number"]) for row in mine.rows("exact"))
        assert seen == numbered.wanted(COUNT // 4)
    finally:
        mine.close()
    return "a task was retried"


def scaling(seed: int, workspace: TabledWorkspace) -> str:
    """Factor 1, 4 and 2, with one container and with two, of which one is killed."""
    wishes = [{"factor": 4}, {"containers": 2}, {"factor": 2}]
    return scaled.changed(workspace, seed, wishes, kill_before=2 if seed // len(_EACH) % 2 else -1)


def disturbed(seed: int, workspace: TabledWorkspace) -> str:
    """PostgreSQL ends or crashes in the middle of batches, and comes back; the disk of other tables is full for a
    while."""
    dice = random.Random(seed)
    several = flights(seed, COUNT)
    workspace.put(several)
    with ExitStack() as stack:
        if workspace.server is not None:
            how = _restarted(dice, workspace, workspace.server)
        else:
            disk = stack.enter_context(mounted(workspace.tables, 64))
            assert disk is not None, "this user may not mount a disk"
            how = _full(dice, workspace, disk)
        workspace.finish(job__max_rows_per_batch=LARGER)
        workspace.check_outputs(several)
    return how


def _restarted(dice: random.Random, workspace: TabledWorkspace, server: postgres.Server) -> str:
    """The job doesn't end."""
    hold = f"0-:{dice.choice(_STEPS[:2])}:{dice.randint(1, 2)}+"
    process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=SMALL)
    process.held()
    how = dice.choice([signal.SIGINT, signal.SIGQUIT])
    server.stop(how)
    process.release()
    time.sleep(_AWAY)
    server.start()
    process.until("more batches", lambda: workspace.committed("0-") >= 5)
    server.stop(signal.SIGQUIT)
    server.start()
    assert process.wait() == 0, process.stderr
    return f"{how.name} at {hold}, SIGQUIT later"


def _full(dice: random.Random, workspace: TabledWorkspace, disk: Disk) -> str:
    """The job ends once it has waited enough, and says why; what is pending is finished by the next run."""
    hold, left = f"0-:staged:{dice.randint(1, 3)}+", dice.randrange(0, 32) << 10
    limits = {"job__max_rows_per_batch": SMALL, "job__max_wait": "2 seconds"}
    process = workspace.start("run", "delays.py", "--available-now", hold=hold, **limits)
    process.held()
    disk.fill(leave=left)
    process.release()
    assert process.wait() == 1, process.stderr
    assert re.search(r"No space left on device|database or disk is full", process.stderr), process.stderr
    assert re.search(r"nothing is lost|continues from this batch", process.stderr), process.stderr
    disk.make_room()
    return f"{left} bytes left at {hold}"


def draining(seed: int, workspace: TabledWorkspace) -> str:
    """The job drains under load, while its container or its coordinator is killed; then it runs and drains again."""
    return drained.drained(seed // len(_EACH), workspace)


_EACH: tuple[Callable[[int, TabledWorkspace], str], ...] = (killed, frozen, retried, scaling, disturbed, draining)


def _scenario(seed: int, workspace: Workspace) -> str:
    assert isinstance(workspace, TabledWorkspace)
    one = _EACH[seed % len(_EACH)]
    return f"{one.__name__}: {one(seed, workspace)}"


SCENARIOS = {f"tables-{kind}": _scenario for kind in tabled.KINDS}


def workspace_of(name: str, folder: Path, stack: ExitStack) -> TabledWorkspace:
    """One with an empty place for tables, which ends with the stack."""
    return tabled.KINDS[name.removeprefix("tables-")](folder, stack)
