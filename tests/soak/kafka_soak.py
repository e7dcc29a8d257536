"""Scenarios of soak on a real broker: the job ``exactly`` killed, failed, frozen and taken over."""

from __future__ import annotations

import itertools
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Sequence

from anabranch import crash_points
from tests.acceptance.harness import INPUT, LATE, Process, Workspace, flights
from tests.acceptance.processes import command, descendants
from tests.jobs import numbered
from tests.support import kafka_peers

EACH = 100_000
COUNT = EACH * len(numbered.STREAMS)
SMALL, LARGER = 10_000, 40_000
FEW = 20_000
PATIENCE = 600.0
FIRST_SECONDS = 15.0
"""Of a process's life: until it has planned its first batches, or so."""
OF_A_STAGE = (
    crash_points.PRODUCED,
    crash_points.OPENING,
    crash_points.TRANSACTED,
    crash_points.PUBLISHED,
    crash_points.MARKED,
    crash_points.OPENING,
)
POINTS = tuple(itertools.product((0, 1), OF_A_STAGE))
"""In pairs, of which an even seed has one: a step at which slots are opened needs a process in which none is yet."""

RUN = "run", "exactly.py", "--available-now"
FENCED = re.compile(r"error: .*, epoch (\d+), must not write to Kafka from its slot \d+: epoch (\d+) has taken over")


def exactly(seed: int, workspace: Workspace) -> str:
    """Two kills of the job ``exactly``, then a task that fails once: each record is there once and in order.

    For even seeds at two of the points; for odd ones at random times, with workers killed before, whose tasks are
    retried.
    """
    dice = random.Random(seed)
    numbered.put(workspace, EACH)
    how = _killed(seed, dice, workspace, POINTS)
    failing = workspace.folder / "fail-once"
    failing.touch()
    workspace.finish(job__max_rows_per_batch=LARGER, env={"EXACTLY_FAIL_ONCE": str(failing)})
    assert not failing.exists(), "no task failed"
    numbered.check(workspace, EACH)
    numbered.check_nothing_is_left(workspace)
    return how


def chain(seed: int, workspace: Workspace) -> str:
    """As ``exactly``, with the points of the stage whose output a second job reads meanwhile: that is exact, too."""
    dice = random.Random(seed)
    numbered.put(workspace, EACH)
    workspace.system.create(numbered.OUTPUT, 4)
    folder = workspace.folder / "second"
    folder.mkdir()
    second = Workspace(folder, workspace.cluster, numbered.CHAINED, twin=workspace, patience=PATIENCE)
    try:
        process = second.start("run", "chained.py", job__max_rows_per_batch=LARGER)
        how = _killed(seed, dice, workspace, POINTS[len(POINTS) // 2 :])
        seen = sum(1 for _ in kafka_peers.committed(workspace.kafka.bootstrap_servers, numbered.CHAIN))
        assert seen < COUNT, "the second had written everything before the first went on"
        workspace.finish(job__max_rows_per_batch=LARGER)
        numbered.check(workspace, EACH)

        ends = workspace.system.ends(numbered.OUTPUT)
        process.until("all to be read", lambda: second.lane("0-").positions.get(numbered.OUTPUT) == ends)
        second.call("stop", "chained")
        assert process.wait() == 0, process.stderr
        numbered.check(second, EACH, numbered.CHAIN)
    finally:
        second.close()
    return f"{how}; the second had {seen} records then"


def duplicates(seed: int, workspace: Workspace) -> str:
    """An output at least once, and a kill before a written batch is committed: some come twice, none is lost."""
    dice = random.Random(seed)
    workspace.settings["streams__exact__delivery"] = "at-least-once"
    numbered.put(workspace, EACH)
    hold = f"1-:{crash_points.PUBLISHED}:{dice.randint(1, 6)}"
    process = workspace.start(*RUN, hold=hold, job__max_rows_per_batch=SMALL)
    process.held()
    process.kill()
    how = _left(workspace, 1, f"killed at {hold}")
    workspace.finish(job__max_rows_per_batch=LARGER)
    came = numbered.counted(kafka_peers.committed(workspace.kafka.bootstrap_servers, numbered.OUTPUT))
    assert set(came) == set(numbered.wanted(EACH)), "at least once"
    assert came.total() > len(came), "no record came twice"
    return f"{how}; {came.total() - len(came)} records came twice"


def fencing(seed: int, workspace: Workspace) -> str:
    """A process is frozen inside a batch, a second one takes over and runs to the end, the first one wakes: it is told.

    For even seeds with transactions open and nothing committed, for odd ones at a random time.
    """
    dice = random.Random(seed)
    numbered.put(workspace, EACH)
    stage, batch = seed // 2 % 2, dice.randint(1, 6)
    hold = "" if seed % 2 else f"{stage}-:{crash_points.PRODUCED}:{batch}"
    process = workspace.start(*RUN, hold=hold, job__max_rows_per_batch=SMALL)
    if hold:
        how = f"at {hold}, {numbered.check_held(workspace, process.held(), crash_points.PRODUCED, batch)}"
    else:
        how = _some_time_later(dice, workspace, process, stage, most=0.4)
    process.freeze()
    process.release()
    read = _read(workspace, 0)
    assert read <= 0.8 * COUNT, f"only {COUNT - read} rows were left"

    folder = workspace.folder / "second"
    shutil.copytree(workspace.folder / ".anabranch", folder / ".anabranch")
    second = numbered.workspace_of(folder, workspace.cluster, twin=workspace, patience=PATIENCE)
    frozen = time.monotonic()
    try:
        second.finish(job__max_rows_per_batch=LARGER)
        numbered.check(second, EACH)
        ends = second.ends()
    finally:
        second.close()

    process.wake()
    seconds = time.monotonic() - frozen
    code = process.wait()
    assert code > 0, f"it ended with {code}:\n{process.stderr}"
    said = FENCED.search(process.stderr)
    assert said is not None, process.stderr
    older, newer = (int(epoch) for epoch in said.groups())
    assert older < newer
    numbered.check(second, EACH)
    assert second.ends() == ends, "the first has written something"
    return f"frozen {how} for {seconds:.0f} s, ended with {code}: epoch {newer} has taken over from {older}"


def ahead(seed: int, workspace: Workspace) -> str:
    """The factor changes under load, and the job is killed in that: for even seeds once the first batch of a lane is
    planned ahead, while the one that it goes on from writes its last one, for odd ones at some time; then another
    change, in which nothing is killed. Each record is there once and in order."""
    dice = random.Random(seed)
    numbered.put(workspace, FEW)
    hold = "" if seed % 2 else f"1-:{crash_points.AHEAD}:0"
    process = workspace.start("run", "exactly.py", hold=hold, job__max_rows_per_batch=FEW // 10)
    # Stage 1 is behind stage 0 then: its next lane has something to plan.
    process.until("some batches of stage 0", lambda: workspace.committed("0-") >= 4)
    scaling = workspace.start("scale", "exactly", "--factor", str(dice.choice([1, 4, 64])))
    if hold:
        process.held()
    later = dice.uniform(0, 1 if hold else 6)
    time.sleep(later)
    process.kill()
    scaling.popen.kill()  # if it still waits: it would do so for a coordinator for some minutes
    scaling.wait()
    how = f"killed {later:.1f} s after {'a lane was begun ahead' if hold else 'the call'}"
    process = workspace.start("run", "exactly.py", job__max_rows_per_batch=FEW // 10)
    process.until("it runs", lambda: "exactly running: " in process.stderr)
    workspace.call("scale", "exactly", "--factor", "16")
    workspace.call("stop", "exactly")
    assert process.wait() == 0, process.stderr
    workspace.finish(job__max_rows_per_batch=LARGER)
    numbered.check(workspace, FEW)
    numbered.check_nothing_is_left(workspace)
    return how


def deleted_under_a_job(workspace: Workspace, stream: str) -> None:
    """A topic goes that the job ``delays`` reads or writes: it fails and names it, and doesn't make it again."""
    process = workspace.start("run", "delays.py", job__max_rows_per_batch=500)
    process.until("two batches", lambda: workspace.committed("0-") >= 1)
    kafka_peers.delete(workspace.kafka.bootstrap_servers, stream)
    assert process.wait() == 1, process.stderr
    assert "Traceback" not in process.stderr
    assert stream in process.stderr.splitlines()[-2], process.stderr
    assert stream not in workspace.system.streams()


def deleted(seed: int, workspace: Workspace) -> str:
    """A topic is deleted under a job: for even seeds an input, for odd ones an output."""
    workspace.put(flights(seed, count=4000))
    stream = (INPUT, LATE)[seed % 2]
    deleted_under_a_job(workspace, stream)
    return f"{stream} was deleted"


def broker_killed(seed: int, workspace: Workspace) -> str:
    """The broker is killed under a job and comes back. Its first start is on a backlog of many batches, of which some
    are left then; the job goes on by itself, and its outputs are exact."""
    several, dice = flights(seed, count=3000, days=4, keyless=0), random.Random(seed)
    workspace.put(several)
    process = workspace.start("run", "delays.py", "--available-now", job__max_rows_per_batch=len(several) // 5)
    process.until("two batches", lambda: workspace.committed("0-") >= 1)
    assert workspace.cluster is not None
    workspace.cluster.kill()
    read = workspace.read("0-")
    assert read < 0.8 * len(several), "nearly all was read before the kill"
    time.sleep(dice.choice([0.0, 10.0]))
    workspace.cluster.start_again()
    assert process.wait() == 0, process.stderr
    assert workspace.committed("0-") + 1 >= 5
    workspace.check_outputs(several)
    return f"the broker was killed after {read} records"


Scenario = Callable[[int, Workspace], str]
SCENARIOS: dict[str, Scenario] = {
    "kafka": exactly,
    "kafka-chain": chain,
    "kafka-duplicates": duplicates,
    "kafka-fencing": fencing,
    "kafka-ahead": ahead,
}


def _killed(seed: int, dice: random.Random, workspace: Workspace, points: Sequence[tuple[int, str]]) -> str:
    """Two kills, each in the run after the one before, for even seeds at two of the points; says how."""
    if seed % 2:
        return "; ".join(_at_random(dice, workspace, dice.randrange(2), most) for most in (0.3, 0.6))
    first, second = (points[(seed + number) % len(points)] for number in range(2))
    how = _at(workspace, *first, dice.randint(1, 6))
    stage, step = second
    later = 1 if step == crash_points.OPENING else dice.randint(1, 3)
    return f"{how}; {_at(workspace, stage, step, workspace.committed(f'{stage}-') + later)}"


def _at(workspace: Workspace, stage: int, step: str, batch: int) -> str:
    """Run the job to a step and kill it there."""
    hold = f"{stage}-:{step}:{batch}"
    process = workspace.start(*RUN, hold=hold, job__max_rows_per_batch=SMALL)
    found = numbered.check_held(workspace, process.held(), step, batch)
    process.kill()
    return _left(workspace, stage, f"killed at {hold}, {found}")


def _at_random(dice: random.Random, workspace: Workspace, stage: int, most: float) -> str:
    """Run the job and kill it at some time, and before it a worker of Spark's, whose task is retried."""
    process = workspace.start(*RUN, job__max_rows_per_batch=SMALL)
    victim = ""
    if dice.random() < 0.3:
        later = dice.uniform(0, FIRST_SECONDS)
        time.sleep(later)
        process.kill()
        return f"killed {later:.1f} s after its start, {workspace.read(f'{stage}-')} rows read"
    process.until("a worker", lambda: bool(_workers(process)))
    committed = workspace.committed(f"{stage}-")
    process.until("a commit", lambda: workspace.committed(f"{stage}-") > committed)
    if workers := _workers(process):
        os.kill(dice.choice(workers), signal.SIGKILL)
        victim = "a worker, then "
    how = _some_time_later(dice, workspace, process, stage, most)
    process.kill()
    return _left(workspace, stage, f"killed {victim}all {how}")


def _some_time_later(dice: random.Random, workspace: Workspace, process: Process, stage: int, most: float) -> str:
    """Wait until a stage has read some more rows, up to a share of all of them, and then a little."""
    process.until("a commit", lambda: workspace.committed(f"{stage}-") >= 0)
    before = _read(workspace, stage)
    rows, later = dice.randint(min(before + 1, int(most * COUNT)), int(most * COUNT)), dice.uniform(0, 1.5)
    process.until(f"{rows} rows", lambda: _read(workspace, stage) >= rows)
    time.sleep(later)
    return f"{later:.1f} s after {rows} rows in stage {stage}"


def _left(workspace: Workspace, stage: int, how: str) -> str:
    left = workspace.lane(f"{stage}-")
    assert left.committed >= 0, "no batch was committed before the kill"
    assert left.read <= 0.8 * COUNT, f"only {COUNT - left.read} rows were left at the kill"
    return f"{how}, {left.read} rows read"


def _read(workspace: Workspace, stage: int) -> int:
    """Offsets of transactions' ends among them, where it is stage 1."""
    return workspace.lane(f"{stage}-").read


def _workers(process: Process) -> list[int]:
    """The Python workers of Spark's: what its daemon has forked."""
    daemons = [
        pid for pid in descendants(process.popen.pid) if "anabranch.spark.internals.worker_daemon" in command(pid)
    ]
    return sorted({child for pid in daemons for child in descendants(pid)})
