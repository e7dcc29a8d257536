"""What the job ``exactly`` reads, numbered for each customer, and what must have come of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anabranch import crash_points
from anabranch.model.hashing import partition_for
from anabranch.systems.kafka import markers
from anabranch.testing.broker import Cluster
from tests.acceptance.harness import PARTITIONS, PATIENCE, Workspace, record_batch
from tests.support import kafka_peers
from tests.support.kafka_peers import Seen

FOLDER = Path(__file__).parent
EXACTLY, CHAINED = FOLDER / "exactly.py", FOLDER / "chained.py"
STREAMS = "orders", "returns"
OUTPUT, CHAIN = "exact", "chain"
CUSTOMERS = 97

Counted = Counter[tuple[str, str, int]]


def workspace_of(
    folder: Path, cluster: Cluster | None, twin: Workspace | None = None, patience: float = PATIENCE
) -> Workspace:
    """One with the job ``exactly``, where a function that raises fails its task, and each partition has 16 buckets.

    Of four partitions on three cores, two are in two Spark tasks.
    """
    settings = {"job__on_error": "fail", "job__factor": 16, "spark__master": "local[3,4]"}
    return Workspace(folder, cluster, EXACTLY, twin, patience, **settings)


def put(workspace: Workspace, count: int, first: int = 0) -> None:
    """Add records to both inputs, up to ``count`` each; ``first`` are there already."""
    for stream in STREAMS:
        if not first:
            workspace.system.create(stream, PARTITIONS)
        numbers = range(first, count)
        keys = [_customer(number).encode() for number in numbers]
        values = [json.dumps({"stream": stream, "number": number // CUSTOMERS}).encode() for number in numbers]
        workspace.append(stream, record_batch(keys, values))


def counted(seen: Iterable[Seen]) -> Counted:
    """How often each record came out."""
    return Counter((each["stream"], each["customer"], each["number"]) for each in map(_value, seen))


def wanted(count: int) -> Counted:
    return Counter((stream, _customer(n), n // CUSTOMERS) for stream in STREAMS for n in range(count))


def check(workspace: Workspace, count: int, output: str = OUTPUT) -> None:
    """A consumer of committed records gets each once, in order for each input and key, where its key belongs."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    seen = list(kafka_peers.committed(workspace.kafka.bootstrap_servers, output))
    for each in seen:
        value = _value(each)
        found[value["stream"], value["customer"]].append(value["number"])
        assert value["name"] == f"{value['stream']}/{value['customer']}/{value['number']}"
        assert each.key is not None
        assert each.key.decode() == f"place-{int(value['customer'][1:]) % 29}"
        assert each.partition == partition_for(each.key, PARTITIONS)
    came, due = counted(seen), wanted(count)
    twice = {record: times for record, times in came.items() if times > 1}
    assert not twice, f"{len(twice)} records came out more than once, as {min(twice.items())}"
    assert not due - came, f"{len(due - came)} records are lost, as {min(due - came)}"
    assert not came - due, f"{len(came - due)} records were never put in, as {min(came - due)}"
    unordered = [key for key, numbers in found.items() if numbers != sorted(numbers)]
    assert not unordered, f"{len(unordered)} keys are out of order, as {unordered[0]}: {found[unordered[0]]}"


def check_nothing_is_left(workspace: Workspace) -> None:
    """Another run reads nothing and writes nothing."""
    before = _stable_ends(workspace)
    again = workspace.finish()
    assert again.stderr.count(" 0 rows read since it last started") == 2, again.stderr
    assert _stable_ends(workspace) == before


def check_held(workspace: Workspace, lane: str, step: str, batch: int) -> str:
    """While it is held there, the slots have done what the step says; tells it."""
    (found,) = (each["lane"] for each in workspace.status()["lanes"] if each["lane"]["id"] == lane)
    (stream,) = (stream for stream in found["outputs"] if not stream.endswith("-dead-letters"))
    if step in (crash_points.PRODUCED, crash_points.MARKED):
        assert workspace.system.ends(stream) != workspace.system.high_watermarks(stream), "no transaction is open"
    if step == crash_points.MARKED:
        return "a marker is in an open transaction"  # until it has ended nobody can read that slot's
    rows = [slot for slot, name in enumerate(found["slots"]) if ":" not in name]
    marked = markers.markers(workspace.kafka, workspace.job, lane, found["group"], rows)
    done = [slot for slot, marker in marked.items() if marker is not None and marker.batch >= batch]
    if step == crash_points.PUBLISHED:
        assert done, "no slot has the batch"
    else:
        assert len(done) < len(rows), "all slots have the batch"
    if step == crash_points.TRANSACTED:
        assert done, "no slot has the batch"
    return f"{len(done)} of {len(rows)} slots have batch {batch}"


def _stable_ends(workspace: Workspace) -> dict[str, dict[int, int]]:
    ends = workspace.ends()
    open_ones = [stream for stream in ends if workspace.system.high_watermarks(stream) != ends[stream]]
    assert not open_ones, f"transactions are open in {open_ones}"
    return ends


def _customer(number: int) -> str:
    return f"c{number % CUSTOMERS:03}"


def _value(seen: Seen) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(seen.value or b"null")
    return found
