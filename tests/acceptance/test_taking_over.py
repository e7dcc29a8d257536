"""A job whose file has changed since ``anabranch run`` ran it takes over its positions and state."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from anabranch import crash_points
from tests.acceptance.harness import Workspace, record_batch

pytestmark = pytest.mark.acceptance

NUMBERS, PARTITIONS, OF_EACH = "numbers", 4, 300

JOB = """
import os

from anabranch import Job

job = Job("delays")


def tagged(row):
    if os.path.exists("refuses-{version}"):
        raise ValueError("it refuses everything")
    return {{**row, "version": {version}}}


numbers = job.read("numbers", key="k string", schema="n int"){condition}
numbers.map(tagged, schema="k string, n int, version int").write("tagged")
numbers.partition_by("k", name="by_k").agg(records="count(*)", total="{total}", name="counted").write("counts")
{more}
"""


def write(workspace: Workspace, version: int, condition: str = "", total: str = "sum(n)", more: str = "") -> None:
    text = JOB.format(version=version, condition=condition, total=total, more=more)
    (workspace.folder / "delays.py").write_text(text)


def put(workspace: Workspace, first: int) -> None:
    """As many records into each partition."""
    numbers = range(first, first + PARTITIONS * OF_EACH)
    for each in (numbers[at::PARTITIONS] for at in range(PARTITIONS)):
        keys = [f"k{n % 40}".encode() for n in each]
        workspace.append(NUMBERS, record_batch(keys, [json.dumps({"n": n}).encode() for n in each]))


def versions(workspace: Workspace) -> dict[int, int]:
    """By the number of the record, the version that has written it."""
    found = [(value["n"], value["version"]) for _, value in workspace.contents("tagged")]
    assert len(found) == len(dict(found)), "records came out twice"
    return dict(found)


def counts(workspace: Workspace) -> dict[str, tuple[int, int]]:
    """The last count and sum of each key."""
    return {value["k"]: (value["records"], value["total"]) for _, value in workspace.contents("counts")}


def wanted(count: int) -> dict[str, tuple[int, int]]:
    sums: Counter[str] = Counter()
    for n in range(count):
        sums[f"k{n % 40}"] += n
    return {key: (count // 40, total) for key, total in sums.items()}


def test_the_former_version_ends_its_batches_and_the_next_one_goes_on(workspace: Workspace) -> None:
    """The first version is killed when a part of its second batch is visible: only its own code may finish that."""
    workspace.system.create(NUMBERS, PARTITIONS)
    put(workspace, 0)
    write(workspace, 1)
    first = workspace.start(
        "run", "delays.py", hold=f"0-:{crash_points.PUBLISHED}:1", job__max_rows_per_batch=PARTITIONS * OF_EACH // 4
    )
    first.held()
    first.kill()
    before = versions(workspace)
    assert set(before.values()) == {1}
    assert 0 < len(before) < PARTITIONS * OF_EACH

    whole = PARTITIONS * OF_EACH
    put(workspace, whole)
    write(workspace, 2, condition='.where("n >= 0")', more='numbers.where("n % 2 = 0").write("even")')
    table = workspace.folder / "even"
    said = workspace.finish(outputs=json.dumps({"even": {"to": "parquet", "path": str(table)}})).stderr
    assert "deployment 2 takes over its positions and state" in said
    assert "even is written from now on" in said
    after = versions(workspace)
    assert after.keys() == set(range(2 * whole))
    assert before.items() <= after.items()
    assert set(after.values()) == {1, 2}
    found = sorted(n for file in table.glob("*.parquet") for n in pq.read_table(file)["n"].to_pylist())
    assert found == sorted(n for n, version in after.items() if version == 2 and n % 2 == 0)
    assert counts(workspace) == wanted(2 * whole)


@pytest.mark.long
def test_a_version_that_does_not_fit_is_refused_and_the_next_one_goes_on(workspace: Workspace) -> None:
    workspace.system.create(NUMBERS, PARTITIONS)
    whole = PARTITIONS * OF_EACH
    put(workspace, 0)
    write(workspace, 1)
    workspace.finish()
    ends = workspace.ends()
    write(workspace, 2, total="sum(2 * n)")
    refused = workspace.call("run", "delays.py", "--available-now", code=4).stderr
    for text in ("differs from the one that was started here", "counted", "undo the change", "anabranch drain delays"):
        assert text in refused, refused
    assert workspace.ends() == ends

    put(workspace, whole)
    write(workspace, 3)
    workspace.finish()
    assert Counter(versions(workspace).values()) == {1: whole, 3: whole}
    assert counts(workspace) == wanted(2 * whole)


@pytest.mark.long
def test_a_takeover_that_is_killed_is_continued(workspace: Workspace) -> None:
    """While the former version's code runs in its own process, which ends with the one that started it. (Soak has kills
    at any moment: kill-changed.)"""
    workspace.system.create(NUMBERS, PARTITIONS)
    whole = PARTITIONS * OF_EACH
    put(workspace, 0)
    write(workspace, 1)
    workspace.finish()
    put(workspace, whole)
    write(workspace, 2, condition='.where("n >= 0")')
    log = workspace.folder / ".anabranch" / "run" / "delays.former.log"
    killed = workspace.start("run", "delays.py")
    killed.until("the former version's container", lambda: log.exists() and "seat 0" in log.read_text())
    killed.kill()

    write(workspace, 3)
    said = workspace.finish().stderr
    assert "deployment 3 takes over" in said
    assert Counter(versions(workspace).values()) == {1: whole, 3: whole}
    assert counts(workspace) == wanted(2 * whole)


@pytest.mark.long
def test_a_former_version_that_cannot_end_its_batch_says_so_and_its_mended_function_ends_it(
    workspace: Workspace,
) -> None:
    whole, batch = PARTITIONS * OF_EACH, PARTITIONS * OF_EACH // 4
    workspace.settings["job__on_error"] = "fail"
    workspace.system.create(NUMBERS, PARTITIONS)
    put(workspace, 0)
    write(workspace, 1)
    first = workspace.start("run", "delays.py", hold=f"0-:{crash_points.PUBLISHED}:1", job__max_rows_per_batch=batch)
    first.held()
    first.kill()
    (workspace.folder / "refuses-1").touch()
    write(workspace, 2, condition='.where("n >= 0")')
    for _ in range(2):
        said = workspace.call("run", "delays.py", "--available-now", code=1).stderr
        assert "of deployment 1 of job delays can't end: map 'map'" in said, said
        assert "ValueError: it refuses everything at delays.py:" in said, said
        assert "undo all other changes, mend the function" in said
    write(workspace, 3)  # another function only
    workspace.finish()
    assert set(versions(workspace)) == set(range(whole))
    assert counts(workspace) == wanted(whole)


@pytest.mark.long
def test_code_that_cannot_be_loaded_from_the_store_changes_nothing(workspace: Workspace) -> None:
    """It reads a file that isn't packed with it."""
    workspace.system.create(NUMBERS, PARTITIONS)
    put(workspace, 0)
    (workspace.folder / "data.csv").write_text("1")
    reading = "from pathlib import Path\n\nPath(__file__).with_name('data.csv').read_text()"
    write(workspace, 1, more=reading)
    workspace.finish()
    write(workspace, 2, condition='.where("n >= 0")')
    refused = workspace.call("run", "delays.py", "--available-now", code=4).stderr
    assert "can't be loaded" in refused
    assert "data.csv" in refused
    put(workspace, PARTITIONS * OF_EACH)
    write(workspace, 1, more=reading)
    workspace.finish()
    assert set(versions(workspace)) == set(range(2 * PARTITIONS * OF_EACH))
