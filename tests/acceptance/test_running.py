"""A job that runs: it is seen, stopped and resumed. What happens when its files are damaged or gone is in soak."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import INPUT, JOB, LATE, TABLE, Workspace, flights
from tests.support import collector as collectors
from tests.support.calm import until_calm
from tests.support.collector import Collector

pytestmark = pytest.mark.acceptance

FLIGHTS = flights(seed=5, count=8000)


def check_exported(collector: Collector, records: int) -> None:
    """Spans of all batches, and the metrics of a coordinator."""
    found = [collectors.values(span.attributes) for span in collector.spans if span.name == "batch"]
    assert {each["anabranch.job"] for each in found} == {JOB}
    rows = [(each["anabranch.stage"], each["anabranch.rows"]) for each in found]
    assert sum(int(str(count)) for stage, count in rows if stage == "0") == records, rows
    assert {each["service.name"] for each in collector.resources} == {JOB}
    assert {"anabranch_lane_lag_records", "anabranch_job_containers"} <= {each.name for each in collector.metrics}


def check_lineage(events: list[dict[str, Any]], streams: Path) -> None:
    assert [each["eventType"] for each in events] == ["START", "COMPLETE"]
    for each in events:
        assert [(one["namespace"], one["name"]) for one in each["inputs"]] == [("file", str(streams / INPUT))]
        assert {one["name"] for one in each["outputs"]} == {str(streams / LATE), str(streams / TABLE)}


def check_log(text: str) -> None:
    events = [json.loads(line) for line in text.splitlines()]
    assert {"event", "level", "timestamp"} <= set.intersection(*map(set, events))
    assert JOB in {each.get("job") for each in events}


def at_a_boundary(workspace: Workspace) -> bool:
    return all((lane := workspace.lane(stage)).committed == lane.planned for stage in ("0-", "1-"))


def test_seen_stopped_and_resumed(workspace: Workspace, tmp_path: Path) -> None:
    first, second = FLIGHTS[:7000], FLIGHTS[7000:]
    workspace.put(first)
    process = workspace.start("run", "delays.py", job__max_rows_per_batch=200)
    process.until("a committed batch of each lane", lambda: min(workspace.committed(s) for s in ("0-", "1-")) >= 0)

    its = workspace.status()
    assert (its["job"], its["state"], its["served"]) == (JOB, "running", True)
    assert [container["alive"] for container in its["containers"]] == [True]
    assert {lane["report"]["phase"] for lane in its["lanes"]} == {"running"}
    assert [(one["job"], one["served"]) for one in json.loads(workspace.call("jobs", "--json").stdout)] == [(JOB, True)]

    begun = time.monotonic()
    refused = workspace.call("run", "delays.py", "--available-now", code=4)
    assert "already running" in refused.stderr
    assert f"pid {process.popen.pid}" in refused.stderr
    assert "starting Spark" not in refused.stderr, f"it took {time.monotonic() - begun:.0f} s to refuse"

    process.popen.send_signal(signal.SIGINT)
    assert process.wait() == 130, process.stderr
    assert "Traceback" not in process.stderr
    assert workspace.lane("0-").read < len(first)
    its = workspace.status()
    assert (its["state"], its["served"]) == ("stopped", False)

    read = workspace.lane("0-").read
    with collectors.running() as collector:
        exported = {
            "OPENLINEAGE_URL": collector.url,
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
            "OTEL_METRIC_EXPORT_INTERVAL": "1000",
            "ANABRANCH_LOG_FORMAT": "json",
        }
        process = workspace.start("run", "delays.py", env=exported, job__max_rows_per_batch=10_000)
        process.until("more to be read", lambda: workspace.lane("0-").read > read)
        put(workspace, second, tmp_path / "second.jsonl")
        process.until("all to be read", lambda: workspace.lane("1-").read == len(first) + len(second))
        until_calm(workspace.client(workspace.url), JOB, workspace.whole_ends(INPUT), process.until)
        workspace.call("stop", JOB)
        assert process.wait() == 0, process.stderr
    check_exported(collector, len(FLIGHTS) - read)
    check_lineage(collector.lineage, workspace.system.log.root)
    check_log(process.stderr)
    assert at_a_boundary(workspace)
    assert workspace.status()["state"] == "stopped"
    workspace.check_outputs(FLIGHTS)


def put(workspace: Workspace, several: list[dict[str, Any]], file: Path) -> None:
    """Through the command line, as JSON lines on the standard input."""
    file.write_text("".join(json.dumps(flight) + "\n" for flight in several))
    done = workspace.call("stream", "put", INPUT, "--key", "tailnum", input=file)
    assert f"{len(several):,} records written" in done.stderr
