"""Long runs of generated jobs under kills: ``python -m tests.soak``. What was done is not done again."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from anabranch import crash_points
from tests.acceptance.harness import (
    ROOT,
    Workspace,
    broken,
    flights,
    held_back,
)
from tests.dashboard import mutants
from tests.jobs import numbered
from tests.soak import (
    api_requests,
    autoscaled,
    broadcasting,
    broken_off,
    clocks,
    clusters,
    compacted,
    deadly,
    deployed,
    drained,
    drive_by,
    emptied,
    errors_shown,
    executor_pods,
    expanded,
    failover,
    first_run,
    histories,
    joined,
    kafka_faults,
    kafka_soak,
    kill_any,
    launched,
    on_kubernetes,
    on_yarn,
    processing,
    racked,
    scaled,
    services_away,
    stores,
    surroundings,
    table_soak,
    three_brokers,
    toured,
    value_soak,
    windowing,
)
from tests.soak.damaged import damage
from tests.support import kafka_peers, postgres
from tests.support.cases import THOROUGH
from tests.support.interruption import interruptible

FOLDER = ROOT / ".soak"
STATE = FOLDER / "state.json"
COUNT = 20_000
SMALL, LARGER = 1500, 5000
AWAY = 600.0
TARGETS = (0, 4, 0.4)
"""Seconds that batches aim at, by seed: not sized by time; the default; so little that sizes change all the time."""
STEPS = tuple(itertools.product((0, 1), crash_points.NAMES))
IN_KAFKA = tuple((stage, step) for stage, step in STEPS if step != crash_points.PLANNING)
"""Batches of a Kafka source are planned where no hook of ours is."""

Scenario = Callable[[int, Workspace], str]


def spine(seed: int, workspace: Workspace) -> str:
    """One kill of the job ``delays``: at a step of a lane for even seeds, at a random time for odd ones."""
    dice = random.Random(seed)
    several = flights(seed, COUNT)
    workspace.put(several, pieces=dice.choice([1, 3]))
    how = _killed(seed, dice, workspace)
    workspace.finish(job__max_rows_per_batch=LARGER)
    workspace.check_outputs(several)
    ends = workspace.ends()
    again = workspace.finish()
    assert again.stderr.count(" 0 rows read since it last started") == 2
    assert workspace.ends() == ends
    return how


def lagging(seed: int, workspace: Workspace) -> str:
    """As ``spine``, with a partition that is some days behind, and with records that are no flights."""
    dice = random.Random(seed)
    several = flights(seed, COUNT, days=6, keyless=0)
    ahead, behind = held_back(several, days=dice.randint(1, 4), partition=dice.randrange(4))
    wrong = broken(dice.randint(1, 400))
    at = dice.randint(0, len(ahead))
    workspace.put(ahead[:at] or ahead[:1])
    workspace.put_broken(wrong)
    workspace.put(ahead[at or 1 :])
    how = _killed(seed, dice, workspace)

    workspace.put(behind)
    workspace.finish(job__max_rows_per_batch=LARGER)
    workspace.check_outputs(several)
    workspace.check_dead_letters(wrong)
    return f"{len(behind)} held back, {len(wrong)} broken; {how}"


def failing_over(seed: int, workspace: Workspace) -> str:
    """What can befall containers and their coordinator, one thing a seed."""
    scenarios = failover.SCENARIOS if workspace.cluster is None else (*failover.SCENARIOS, failover.written_twice)
    served = failover.Served(workspace, COUNT, seed)
    return scenarios[seed % len(scenarios)](random.Random(seed), served)


def without_store(seed: int, workspace: Workspace) -> str:
    """The coordinator's store, in PostgreSQL, is restarted or away."""
    with postgres.serving() as server:
        served = failover.Served(workspace, COUNT, seed, server.new_database())
        return failover.store_restarted(random.Random(seed), served, server)


def without_coordinator(seed: int, workspace: Workspace) -> str:
    """The coordinator is away for ten minutes."""
    served = failover.Served(workspace, SMALL, seed, later=failover.records_for(AWAY))
    return failover.away_for_long(random.Random(seed), served, AWAY)


def _killed(seed: int, dice: random.Random, workspace: Workspace) -> str:
    """Start the job and kill it, for even seeds at a step, for odd ones at some time from its start on; says how."""
    points = STEPS if workspace.cluster is None else IN_KAFKA
    stage, step = points[seed // 2 % len(points)]
    batch = dice.randint(0, 6)
    hold = "" if seed % 2 else f"{stage}-:{step}:{batch}"
    process = workspace.start("run", "delays.py", "--available-now", hold=hold, job__max_rows_per_batch=SMALL)
    if hold:
        how = f"at {hold}"
        process.held()
    elif dice.random() < 0.5:
        later = dice.uniform(0, kafka_soak.FIRST_SECONDS)
        how = f"{later:.1f} s after its start"
        time.sleep(later)
    else:
        read, later = dice.randint(1, COUNT // 2), dice.uniform(0, 1.5)
        how = f"{later:.1f} s after {read} rows in stage {stage}"
        process.until(f"{read} rows", lambda: workspace.read(f"{stage}-") >= read)
        time.sleep(later)
    process.kill()
    read = workspace.read(f"{stage}-")
    assert read <= 0.8 * COUNT, f"only {COUNT - read} rows were left at the kill"
    return f"killed {how}, {read} rows read"


def long_tests(seed: int, workspace: Workspace) -> str:
    """The tests that the suite leaves out because they take long, and properties with all of their examples. Whatever
    the seed, they are the same.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-m", "long or hypothesis"]
    env = {**os.environ, THOROUGH: "yes"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    return done.stdout.strip().splitlines()[-1]


def broken_pages(seed: int, workspace: Workspace) -> str:
    """A page of the dashboard that is broken in one place: its check must see it."""
    mutant = mutants.MUTANTS[seed % len(mutants.MUTANTS)]
    wrong = mutants.seen(mutant, workspace.folder)
    assert not wrong, wrong
    return mutant.name


# Each is run once a seed, in a workspace of its own. Every later issue adds its long runs here.
SCENARIOS: dict[str, Scenario] = {
    "spine": spine,
    "lagging": lagging,
    "damage": damage,
    "damaged": surroundings.damaged,
    "surroundings": surroundings.disk_full,
    "clocks": clocks.clocks,
    "first-run": first_run.first_run,
    "dashboard": broken_pages,
    "errors-shown": errors_shown.scenario,
    "failover": failing_over,
    "postgresql": without_store,
    "away": without_coordinator,
    "services-away": services_away.services_away,
    "launcher": launched.kept_running,
    "scaled": scaled.scaled,
    "million": scaled.million,
    "cannot-start": scaled.cannot_start,
    "long": long_tests,
    "expanded": expanded.expanded,
    "joined": joined.joined,
    "broadcast": broadcasting.broadcasts,
    "processed": processing.timers,
    "windowed": windowing.windows,
    "histories": histories.lived_through,
    "deployed": deployed.upgraded,
    "drained": drained.drained,
    "emptied": emptied.emptied,
    "stuck": drained.stuck,
    "worker-dies": deadly.killed,
    "cluster-worker-dies": deadly.killed_on_cluster,
    "autoscaled": autoscaled.scaled_by_itself,
    "compacted": compacted.compacted,
    "cluster": clusters.worker_lost,
    "cluster-deployed": clusters.deployed_when_full,
    "strict-values": value_soak.read_strictly,
    "kill-any": kill_any.killed,
    "kill-changed": kill_any.changed,
    "broken-off": broken_off.broken_off,
    "drive-by": drive_by.drive_by,
    "tour": toured.interrupted,
    "api-requests": api_requests.sent_by_all,
    "s3": stores.scenario,
    "hdfs": stores.scenario,
    "yarn": on_yarn.changed,
    "kubernetes": on_kubernetes.moved,
    "kubernetes-executors": executor_pods.changed,
    **table_soak.SCENARIOS,
}
SCENARIOS_IN_KAFKA: dict[str, Scenario] = {
    **kafka_soak.SCENARIOS,
    "kafka-delays": lagging,
    "kafka-deleted": kafka_soak.deleted,
    "kafka-broker": kafka_soak.broker_killed,
    "kafka-failover": failing_over,
    "kafka-postgresql": without_store,
    "kafka-away": without_coordinator,
    "kafka-services-away": services_away.services_away,
    "kafka-scaled": scaled.scaled,
    "kafka-million": scaled.million,
    "kafka-deployed": deployed.upgraded,
    "kafka-upgraded": deployed.upgraded_by_drain,
    "kafka-drained": drained.drained,
    "kafka-emptied": emptied.emptied,
    "kafka-worker-dies": deadly.killed,
    "kafka-expanded": expanded.expanded,
    "kafka-joined": joined.joined,
    "kafka-broadcast": broadcasting.broadcasts,
    "kafka-processed": processing.timers,
    "kafka-windowed": windowing.windows,
    "kafka-histories": histories.lived_through,
    "kafka-racks": racked.racked,
    "kafka-kill-any": kill_any.killed,
    "kafka-kill-changed": kill_any.changed,
    "kafka-broken-off": broken_off.broken_off,
    "kafka-clocks": clocks.clocks_in_kafka,
    "kafka-damaged": surroundings.damaged,
    "kafka-surroundings": surroundings.disk_full,
    "kafka-brokers": three_brokers.disturbed,
    "kafka-faults": kafka_faults.faulty,
}
ALL = {**SCENARIOS, **SCENARIOS_IN_KAFKA}
_THEIRS = {
    expanded.expanded: expanded.workspace_of,
    joined.joined: joined.workspace_of,
    emptied.emptied: emptied.workspace_of,
    broken_off.broken_off: broken_off.workspace_of,
    deadly.killed: deadly.workspace_of,
    deadly.killed_on_cluster: deadly.workspace_of,
}
WITH_THEIR_JOB = {name: _THEIRS[scenario] for name, scenario in ALL.items() if scenario in _THEIRS}
"""What makes the workspace of a scenario whose job isn't ``delays``."""
WITH_THEIR_SERVERS: dict[str, Callable[[Path, ExitStack], Workspace]] = {
    "s3": stores.on_s3,
    "hdfs": stores.on_hdfs,
    "yarn": on_yarn.workspace_of,
    "kubernetes-executors": executor_pods.workspace_of,
}
"""What makes the workspace of a scenario for which servers are started that end with the stack."""


def main() -> int:
    interruptible()
    words = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    words.add_argument("--seeds", type=int, default=20, help="how many seeds of each scenario (default: 20)")
    words.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default: 0)")
    words.add_argument("--only", choices=sorted(ALL), help="this scenario only")
    words.add_argument("--again", action="store_true", help="also the seeds that are done")
    given = words.parse_args()
    for name in [given.only] if given.only else ALL:
        for seed in range(given.first, given.first + given.seeds):
            if seed in _done().get(name, []) and not given.again:
                print(f"{name} {seed}: done before", flush=True)
            elif not _ran(name, seed):
                return 1
    return 0


def _ran(name: str, seed: int) -> bool:
    command = f"python -m tests.soak --only {name} --from {seed} --seeds 1 --again"
    print(f"{name} {seed}: {command}", flush=True)
    folder = FOLDER / f"{name}-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (FOLDER / ".gitignore").write_text("*\n")
    begun = time.monotonic()
    with ExitStack() as stack:
        workspace = _workspace(name, seed, folder, stack)
        stack.callback(workspace.close)
        workspace.settings["job__target_batch_seconds"] = TARGETS[seed % len(TARGETS)]
        try:
            found = ALL[name](seed, workspace)
        except (AssertionError, subprocess.TimeoutExpired) as error:
            what = str(error) or traceback.extract_tb(error.__traceback__)[-1].line
            print(f"{name} {seed}: FAILED: {what}\n  its files are in {folder}; again with\n  {command}", flush=True)
            return False
    shutil.rmtree(folder)
    print(f"{name} {seed}: ok, {found}; {time.monotonic() - begun:.0f} s", flush=True)
    done = _done()
    _write({**done, name: sorted({*done.get(name, []), seed})})
    return True


def _workspace(name: str, seed: int, folder: Path, stack: ExitStack) -> Workspace:
    """The streams of a scenario in Kafka are in a broker of its own, which ends with the stack."""
    if name in table_soak.SCENARIOS:
        return table_soak.workspace_of(name, folder, stack)
    if name in WITH_THEIR_SERVERS:
        return WITH_THEIR_SERVERS[name](folder, stack)
    if name in ("kill-any", "kill-changed"):
        return kill_any.workspace_of(seed, folder, None)
    if name not in SCENARIOS_IN_KAFKA:
        return WITH_THEIR_JOB[name](folder, None) if name in WITH_THEIR_JOB else Workspace(folder)
    if ALL[name] is racked.racked:
        return racked.workspace_of(folder, stack)
    if ALL[name] is three_brokers.disturbed:
        return three_brokers.workspace_of(folder, stack)
    if ALL[name] is kafka_faults.faulty:
        return kafka_faults.workspace_of(seed, folder, stack)
    cluster = stack.enter_context(kafka_peers.start(folder / "cluster"))
    patience = kafka_soak.PATIENCE
    if name in ("kafka-kill-any", "kafka-kill-changed"):
        return kill_any.workspace_of(seed, folder, cluster, patience)
    if name in kafka_soak.SCENARIOS:
        return numbered.workspace_of(folder, cluster, patience=patience)
    if name in WITH_THEIR_JOB:
        return WITH_THEIR_JOB[name](folder, cluster, patience)
    return Workspace(folder, cluster, patience=patience)


def _done() -> dict[str, list[int]]:
    return json.loads(STATE.read_text()) if STATE.exists() else {}


def _write(done: dict[str, list[int]]) -> None:
    part = Path(f"{STATE}.part")
    part.write_text(json.dumps(done) + "\n")
    part.replace(STATE)


if __name__ == "__main__":
    sys.exit(main())
