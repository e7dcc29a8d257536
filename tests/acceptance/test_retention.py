"""Streams that don't keep all records, under a job that runs, is scaled, killed, backed up and restored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.harness import EXAMPLE, INPUT, JOB, Workspace, flights

pytestmark = pytest.mark.acceptance


def described(workspace: Workspace, stream: str) -> Any:
    return json.loads(workspace.call("stream", "describe", stream, "--json").stdout)


def starts(workspace: Workspace, stream: str) -> int:
    return sum(each["start"] for each in described(workspace, stream)["partitions"])


@pytest.mark.long
def test_a_job_stays_exact_while_what_it_has_read_is_deleted(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    old, several = Workspace(tmp_path / "old"), flights(11, 24_000)
    old.put(several[:6000], pieces=20)
    process = old.start("run", EXAMPLE.name, job__max_rows_per_batch=500)
    try:
        process.until("its first batches", lambda: old.read("0-") > 1000)
        (between,) = [name for name in old.system.streams() if name.startswith(f"{JOB}-") and name.endswith("-1")]
        process.until("some is deleted between the stages", lambda: sum(old.system.starts(between).values()) > 0)
        old.call("scale", JOB, "--factor", "4")
        old.put(several[6000:12_000], pieces=20)
        process.until("some more", lambda: old.read("0-") > 8000)
        process.kill()
        old.finish()
        old.call("stream", "retain", INPUT, "--retain-for", "0 seconds")
        assert starts(old, INPUT) > 8000
        old.call("stream", "retain", INPUT, "--retain-for", "1 day")  # or what is put next is deleted unread
        old.put(several[12_000:18_000], pieces=20)
        old.call("backup", JOB, str(tmp_path / "backup"))
        before = starts(old, INPUT)
        shutil.rmtree(old.folder / ".anabranch")

        (tmp_path / "new").mkdir()
        new = Workspace(tmp_path / "new")
        new.call("restore", str(tmp_path / "backup"))
        assert starts(new, INPUT) == before
        new.put(several[18_000:], pieces=20)
        new.finish()
        new.check_outputs(several)
        assert new.call("check", JOB).stdout == ""
    finally:
        process.clear_away()
