"""A job whose topics are replicated on three brokers, of which some restart, are killed or freeze while it runs."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from anabranch.systems.kafka import jars
from anabranch.testing import broker
from anabranch.testing.broker import Cluster
from tests.acceptance.harness import Workspace, flights
from tests.soak import recovery
from tests.soak.with_functions import in_turn
from tests.support import kafka_peers

__all__ = ["disturbed", "workspace_of"]

BROKERS = 3
COUNT, DAYS = 6000, 4
SMALL = 100
AWAY_SECONDS = (5.0, 60.0)
PATIENCE = 600.0


def workspace_of(folder: Path, stack: ExitStack) -> Workspace:
    found = jars.broker_folder()
    assert found is not None, "a broker's jars are needed: anabranch jars fetch broker"
    cluster = stack.enter_context(broker.start(folder / "cluster", found, BROKERS, properties=kafka_peers.PROPERTIES))
    return Workspace(folder, cluster, patience=PATIENCE, job__max_rows_per_batch=SMALL)


def disturbed(seed: int, workspace: Workspace) -> str:
    """Each broker in turn is restarted, is killed, or freezes, or two are away at the same time; by seed. Each is away
    for some seconds, or for a minute. The job goes on by itself soon after each is back, and all is there once.

    Leaders, group coordinators and transaction coordinators move each time.
    """
    assert workspace.cluster is not None
    dice, (name, disturbance) = random.Random(seed), list(DISTURBANCES.items())[seed % len(DISTURBANCES)]
    away = AWAY_SECONDS[seed // len(DISTURBANCES) % len(AWAY_SECONDS)]
    functions = in_turn(seed, len(DISTURBANCES) * len(AWAY_SECONDS), workspace)
    several = flights(seed, COUNT, days=DAYS, keyless=0)
    piece = COUNT // BROKERS
    workspace.put(several[:SMALL])
    began = time.monotonic()
    process = workspace.start("run", "delays.py")
    process.until("a batch", lambda: workspace.committed("1-") >= 0)
    within = recovery.within(time.monotonic() - began)
    took, put = [], SMALL
    for turn, number in enumerate(dice.sample(range(BROKERS), BROKERS)):
        end = piece * (turn + 1)
        workspace.put(several[put:end])
        put = end
        with disturbance(workspace.cluster, number):
            time.sleep(away)
            assert not process.ended, process.stderr
        began = time.monotonic()
        before = workspace.read("0-")
        process.until("the job to go on", lambda put=put, before=before: workspace.read("0-") > min(before, put - 1))
        took.append(time.monotonic() - began)
        assert took[-1] <= within, f"it went on {took[-1]:.0f} s after all were back:\n{process.stderr}"
        process.until("all to be read", lambda put=put: min(workspace.read("0-"), workspace.read("1-")) >= put)
    process.popen.send_signal(signal.SIGTERM)
    assert process.wait() == 0, process.stderr
    assert "Traceback" not in process.stderr, process.stderr
    workspace.finish()  # windows that the last batches have ended come out, too
    workspace.check_outputs(several)
    return f"{name}{functions}, each for {away:g} s: it went on {', '.join(f'{each:.0f}' for each in took)} s later"


@contextmanager
def _restarted(cluster: Cluster, number: int) -> Iterator[None]:
    cluster.stop(number)
    yield
    cluster.start_again(number)


@contextmanager
def _killed(cluster: Cluster, number: int) -> Iterator[None]:
    cluster.kill(number)
    yield
    cluster.start_again(number)


@contextmanager
def _frozen(cluster: Cluster, number: int) -> Iterator[None]:
    os.kill(cluster.pid(number), signal.SIGSTOP)
    yield
    os.kill(cluster.pid(number), signal.SIGCONT)


@contextmanager
def _two_killed(cluster: Cluster, number: int) -> Iterator[None]:
    """Nothing can be written then."""
    both = number, (number + 1) % BROKERS
    for each in both:
        cluster.kill(each)
    yield
    for each in both:
        cluster.start_again(each)


DISTURBANCES: dict[str, Callable[[Cluster, int], AbstractContextManager[None]]] = {
    "restarted": _restarted,
    "killed": _killed,
    "frozen": _frozen,
    "two killed": _two_killed,
}
