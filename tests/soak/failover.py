"""What can befall containers and their coordinator: real processes, of which some are frozen, killed or cut off."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from typing import Any

from anabranch import crash_points
from tests.acceptance.harness import INPUT, LATE, Process
from tests.acceptance.processes import command, descendants
from tests.soak.served import EVERY, FENCED, JOB, LEASE, PORTION, Served, ended_well, seat_of
from tests.support.calm import until_calm
from tests.support.postgres import Server
from tests.support.proxy import Proxy

Scenario = Callable[[random.Random, "Served"], str]


def ended_fenced(process: Process, by_itself: bool = False) -> None:
    """It ends because it has lost its seat, and says so; or by itself, as nobody else can keep it from writing."""
    assert process.wait() == FENCED, process.stderr
    why = "the coordinator was not heard for" if by_itself else r"container \S+ must stop: "
    assert re.search(rf"^error: {why}", process.stderr, re.MULTILINE), process.stderr


def frozen(dice: random.Random, served: Served) -> str:
    """A container is frozen inside a batch, a second one takes over and ends the job, then the first one wakes."""
    in_kafka = served.workspace.cluster is not None
    step = dice.choice(
        [
            crash_points.PLANNED,
            *([crash_points.PRODUCED, crash_points.MARKED] if in_kafka else [crash_points.PUBLISHED]),
        ]
    )
    stage = 0 if step in crash_points.OF_SLOTS else dice.randrange(2)  # no window is closed in the first batches
    hold = f"{stage}-:{step}:{dice.randint(1, 2)}"
    served.start()
    first = replaced_while_frozen(served, hold)
    served.check()
    first.wake()
    ended_fenced(first)
    served.check()
    return f"frozen at {hold}"


def replaced_while_frozen(served: Served, hold: str) -> Process:
    """A container that is frozen at a step, while another one takes over and ends the job."""
    first = served.container(hold=hold)
    first.held()
    if hold.startswith("0-"):  # behind it, stage 0 may have read all: what is held is left
        served.check_under_way()
    first.freeze()
    first.release()
    ended_well(served.container())
    return first


def killed(dice: random.Random, served: Served) -> str:
    """A container is killed; one that stands by takes its seat once the lease has ended, and no sooner."""
    first = served.under_way(dice.randint(0, 2))
    second = served.standing_by()
    begun = time.monotonic()
    first.kill()  # returns when all that it has started is gone, too
    second.until("its seat", lambda: seat_of(second) is not None)
    seconds = time.monotonic() - begun
    assert seconds >= LEASE - 1.5, f"it took the seat after {seconds:.1f} s, with a lease of {LEASE} s"
    ended_well(second)
    served.check()
    return f"killed; its seat was taken after {seconds:.1f} s"


def killed_with_a_standby(dice: random.Random, served: Served) -> str:
    """A container is killed; one that stands by has kept a standby of its lane with state, and begins with that."""
    served.start(assignment__standbys=1)
    first = served.container()
    served.until_under_way(first, dice.randint(0, 2))
    second = served.standing_by()
    second.until("a standby", lambda: any(copy["behind"] is not None for copy in served.status()["copies"]))
    served.check_under_way()
    kept = _state(served, "standby-*")
    first.kill()
    ended_well(second)
    served.check()
    assert kept & _state(served, "[0-9]*"), "the standby has not become the lane's folder"
    assert not _state(served, "standby-*")
    return "killed, with a standby"


def _state(served: Served, folders: str) -> set[int]:
    """The files of state in some folders of lanes, by what stays as they are renamed."""
    return {file.stat().st_ino for file in served.workspace.lanes.glob(f"1-*/{folders}/state/**/*.changelog")}


def killed_twice(dice: random.Random, served: Served) -> str:
    """A container is killed, and so is the one that took its seat: the third goes on in a copy of a copy."""
    first = served.under_way()
    second = served.container()
    first.kill()
    second.until("its seat", lambda: seat_of(second) is not None)
    committed = served.workspace.committed("0-")
    second.until("a batch of its own", lambda: served.workspace.committed("0-") > committed)
    served.check_under_way()
    third = served.container()
    second.kill()
    ended_well(third)
    served.check()
    return "killed twice"


def coordinator_killed(dice: random.Random, served: Served) -> str:
    """The coordinator is killed and comes back: no lane stops."""
    only = served.under_way()
    served.coordinator.kill()
    read = served.workspace.lane("0-").read
    only.until("a batch without a coordinator", lambda: served.workspace.lane("0-").read > read)
    time.sleep(dice.uniform(0, 2 * LEASE))
    served.lead()
    ended_well(only)
    served.check()
    took = [event for event in _events(served) if "took seat" in event["what"]]
    assert len(took) == 1, took
    return "no lane stopped"


def both_killed(dice: random.Random, served: Served) -> str:
    """Container and coordinator are killed; a coordinator that comes back waits for a lease, and gives the seat on."""
    first = served.under_way(dice.randint(0, 2))
    served.coordinator.kill()
    first.kill()
    second = served.container()
    served.lead()
    ended_well(second)
    served.check()
    return "both killed"


def away(dice: random.Random, served: Served, seconds: float) -> str:
    """The coordinator is away for long, under load: batches go on, and what has caught up ends when it is back."""
    only = served.under_way()
    served.coordinator.kill()
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        assert not only.ended, only.stderr
        time.sleep(0.1)
    assert "the lanes go on" in only.stderr
    served.lead()
    ended_well(only)
    assert "answers again" in only.stderr
    served.check()
    return f"away for {seconds:.0f} s"


def cut_short(dice: random.Random, served: Served) -> str:
    """The network is cut for less than a lease: nothing happens."""
    with Proxy(served.port) as proxy:
        served.start()
        only = served.container(url=proxy.url)
        served.until_under_way(only)
        proxy.cut()
        time.sleep(dice.uniform(0.2, 0.5) * LEASE)
        proxy.heal()
        ended_well(only)
    served.check()
    assert not [event for event in _events(served) if "lost its seat" in event["what"]]
    return "nothing happened"


def cut_off(dice: random.Random, served: Served) -> str:
    """A container is cut off and goes on, is replaced meanwhile, and is fenced; when the network is back it knows."""
    with Proxy(served.port) as proxy:
        served.start()
        first = served.container(url=proxy.url)
        served.until_under_way(first)
        second = served.standing_by()
        proxy.cut()
        second.until("its seat", lambda: seat_of(second) is not None)
        if dice.random() < 0.5:
            proxy.heal()
        ended_well(second)
        proxy.heal()
        ended_fenced(first)
    served.check()
    return "replaced while it was cut off"


def left(dice: random.Random, served: Served) -> str:
    """A container is told to end by SIGTERM: it gives its seat back at once."""
    first = served.under_way()
    second = served.standing_by()
    first.popen.send_signal(signal.SIGTERM)
    ended_well(first)
    begun = time.monotonic()
    second.until("its seat", lambda: seat_of(second) is not None)
    seconds = time.monotonic() - begun
    ended_well(second)
    served.check()
    assert not [event for event in _events(served) if "fenced" in event["what"]]
    return f"the seat was free {seconds:.1f} s after the end"


def java_killed(dice: random.Random, served: Served) -> str:
    """The Java process of a container is killed, as for its memory: another one takes over, and the container is
    replaced by a new process, which stands by or has a seat again."""
    first = served.under_way(dice.randint(0, 2))
    second = served.standing_by()
    (java,) = (child for child in descendants(first.popen.pid) if "/bin/java " in command(child))
    os.kill(java, signal.SIGKILL)
    first.until("its new process", lambda: "this is new process 1 of 2: the Java process of Spark" in first.stderr)
    ended_well(first)
    ended_well(second)
    served.check()
    return "its Java process was killed"


def fenced_by_hand(dice: random.Random, served: Served) -> str:
    """An operator fences a container: it ends, and the one that stands by goes on at once."""
    first = served.under_way(dice.randint(0, 2))
    second = served.standing_by()
    begun = time.monotonic()
    served.workspace.call("fence", seat_of(first) or "", "--why", "a test", coordinator__url=served.url)
    second.until("its seat", lambda: seat_of(second) is not None)
    seconds = time.monotonic() - begun
    ended_fenced(first)
    assert "the user fenced it: a test" in first.stderr
    ended_well(second)
    served.check()
    return f"its seat was taken {seconds:.1f} s after the order"


def one_of_two_killed(dice: random.Random, served: Served) -> str:
    """A job has two seats; the container in one is killed. The other one goes on meanwhile, and a third takes over."""
    served.start(job__containers=2)
    both = served.container(), served.container()
    for each in both:
        each.until("its seat", lambda each=each: seat_of(each) is not None)
    third = served.container()
    third.until("it stands by", lambda: "standing by" in third.stderr)
    served.until_under_way(both[0], dice.randint(0, 1))
    killed, left = dice.sample(both, 2)
    killed.kill()
    read = served.workspace.read("0-")
    left.until("a batch while a seat is empty", lambda: served.workspace.read("0-") > read)
    assert seat_of(third) is None
    for each in (left, third):
        ended_well(each)
    served.check()
    return f"{seat_of(killed)} was killed"


def store_restarted(dice: random.Random, served: Served, server: Server) -> str:
    """PostgreSQL is restarted, or away for more than a lease, under load: no lane stops, and no seat is lost."""
    only = served.under_way(dice.randint(0, 2))
    seconds = dice.choice([0.0, 2.5 * LEASE])
    server.stop(dice.choice([signal.SIGINT, signal.SIGQUIT]))
    read = served.workspace.read("0-")
    begun = time.monotonic()
    only.until("a batch without a store", lambda: served.workspace.read("0-") > read)
    time.sleep(max(0.0, seconds - (time.monotonic() - begun)))
    server.start()
    ended_well(only)
    served.check()
    assert len([event for event in _events(served) if "took seat" in event["what"]]) == 1
    return f"the store was away for {time.monotonic() - begun:.0f} s"


def records_for(seconds: float) -> int:
    """So many are put while the coordinator is away for so long, and before."""
    return round((seconds + 60) / EVERY) * PORTION


def away_for_long(dice: random.Random, served: Served, seconds: float) -> str:
    """The coordinator is away for long, while records keep coming: what comes out keeps its rate."""
    served.workspace.settings["job__max_rows_per_batch"] = 2 * PORTION  # for the container, too
    served.start(for_good=True)
    only = served.container()
    lags: list[float] = []

    def feed(until: float) -> None:
        while time.monotonic() < until:
            put = time.monotonic()
            several = served.later[:PORTION]
            del served.later[:PORTION]
            assert several, "there are no more records"
            served.workspace.put(several)
            served.flights += several
            only.until("these records", lambda: served.workspace.read("0-") >= len(served.flights))
            lags.append(time.monotonic() - put)
            time.sleep(max(0.0, put + EVERY - time.monotonic()))

    only.until("the first ones", lambda: served.workspace.read("0-") >= len(served.flights))
    feed(time.monotonic() + 30)
    before = sorted(lags)[len(lags) // 2]
    served.coordinator.kill()
    lags.clear()
    feed(time.monotonic() + seconds)
    during = sorted(lags)[len(lags) // 2]
    assert "the lanes go on" in only.stderr
    assert during <= 2 * before + 1, f"records took {before:.1f} s with a coordinator, {during:.1f} s without"
    served.lead()
    only.until("its coordinator", lambda: "answers again" in only.stderr)
    until_calm(served.workspace.client(served.url), JOB, served.workspace.whole_ends(INPUT), only.until)
    served.workspace.call("stop", JOB, coordinator__url=served.url)
    ended_well(only)
    served.check()
    return f"away for {seconds:.0f} s; {len(lags)} portions took {before:.1f} s before, and {during:.1f} s meanwhile"


def written_twice(dice: random.Random, served: Served) -> str:
    """As ``frozen``, with an output that can't be fenced, in Kafka: records come twice, so these tests can fail."""
    hold = f"0-:{crash_points.PUBLISHED}:{dice.randint(1, 2)}"
    served.start(**{f"streams__{LATE}__delivery": "at-least-once"})
    first = replaced_while_frozen(served, hold)
    first.wake()
    assert first.wait() == FENCED, first.stderr
    origins = [value["origin"] for _, value in served.workspace.contents(LATE)]
    twice = len(origins) - len(set(origins))
    assert twice > 0, "nothing was written twice"
    return f"{twice} records came twice"


def _events(served: Served) -> list[Any]:
    found = served.workspace.call("events", JOB, "--json", coordinator__url=served.url)
    events: list[Any] = json.loads(found.stdout)
    return events


SCENARIOS: tuple[Scenario, ...] = (
    frozen,
    killed,
    killed_twice,
    coordinator_killed,
    both_killed,
    lambda dice, served: away(dice, served, 40.0),
    cut_short,
    cut_off,
    left,
    fenced_by_hand,
    one_of_two_killed,
    java_killed,
    killed_with_a_standby,
)
"""On both systems."""
