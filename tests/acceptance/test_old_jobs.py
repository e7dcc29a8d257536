"""A job that an older commit ran, and that was stopped or killed there, goes on exactly with the present code."""

from __future__ import annotations

import tarfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import INPUT, LATE, TABLE, Flight, Workspace

pytestmark = pytest.mark.acceptance

FOLDER = Path(__file__).parent / "old_jobs"
NUMBERED = "numbered-flights"
JOBS = {
    "stopped-c9dacf9": "numbered",
    "killed-c9dacf9": "numbered",
    "stopped-9a32a78": "hourly",
    "stopped-f26c615": "hourly",
}


QUICK = {"killed-c9dacf9"}
"""The oldest; soak has the others."""


@pytest.fixture(params=[pytest.param(each, marks=() if each in QUICK else pytest.mark.long) for each in JOBS])
def workspace(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Workspace]:
    with tarfile.open(FOLDER / f"{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path)  # ours; Python 3.11.0 has no filters
    for path in tmp_path.glob(".anabranch/lanes/*/*/*/state/*/_metadata/v2/[0-9]*"):
        path.write_text(path.read_text().replace("@FOLDER@", str(tmp_path)))
    job = FOLDER / JOBS[request.param] / "delays.py"
    made = Workspace(tmp_path, job=job, job__state_partitions=1, job__max_rows_per_batch=300)
    yield made
    made.close()


def test_a_job_of_an_older_commit_goes_on_exactly(workspace: Workspace) -> None:
    lanes = {lane["lane"]["id"] for lane in workspace.status()["lanes"]}
    assert lanes
    outputs = {LATE, TABLE, NUMBERED} & set(workspace.system.streams())
    before = {stream: by_partition(workspace, stream) for stream in outputs}
    assert any(before.values()), "the job had done nothing that could be done twice"

    workspace.finish()

    several = flights(workspace)
    assert len(several) == 600
    workspace.check_outputs(several)
    if NUMBERED in outputs:
        check_numbered(workspace, several)
    assert {lane["lane"]["id"] for lane in workspace.status()["lanes"]} == lanes, "others took the place of its lanes"
    for stream in outputs:
        after = by_partition(workspace, stream)
        assert all(after[number][: len(rows)] == rows for number, rows in before[stream].items())


def flights(workspace: Workspace) -> list[Flight]:
    """The input, partition by partition."""
    return [{"tailnum": None if key is None else key.decode(), **value} for key, value in workspace.contents(INPUT)]


def by_partition(workspace: Workspace, stream: str) -> dict[int, list[bytes]]:
    """The values of a stream in order, of each partition."""
    found: dict[int, list[bytes]] = defaultdict(list)
    for partition, _, value, _ in workspace.raw(stream):
        found[partition].append(value)
    return found


def check_numbered(workspace: Workspace, several: list[Flight]) -> None:
    """Each plane's flights are there once, in order, and counted from one: across the two commits."""
    expected: dict[Any, list[tuple[str, int]]] = defaultdict(list)
    for flight in several:
        mine = expected[flight["tailnum"]]
        mine.append((flight["origin"], len(mine) + 1))
    found: dict[Any, list[tuple[str, int]]] = defaultdict(list)
    for _, value in workspace.contents(NUMBERED):
        found[value["tailnum"]].append((value["origin"], value["n"]))
    assert found == expected
