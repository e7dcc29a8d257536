"""Job files that deployments of earlier commits keep can still be imported, whatever the docs of their time named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anabranch import Job
from anabranch.launch import loading
from anabranch.model.graph import Graph

NAMES = {
    "anabranch": "Job Processor ValueState ListState MapState Timers tumbling sliding session Stream Windowed",
    "anabranch.job": "Job Stream Table Windowed",
    "anabranch.hooks": "DrainedTask",
    "anabranch.errors": "ConflictError NotFoundError UsageError",
    "anabranch.tables": "Mark Owner marks",
    "anabranch.testing": "BATCH DRAIN EXPAND KILL REWIND SCALE Message run",
}


@pytest.mark.parametrize("module", NAMES)
def test_a_stored_job_file_imports_what_it_was_written_with(module: str, tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(
        f"from {module} import {', '.join(NAMES[module].split())}\n"
        "import anabranch\n"
        "job = anabranch.Job('old')\n"
        "job.read('rows', schema='n int').write('out')\n"
    )
    assert [node.kind for node in loading.load(file).graph.nodes] == ["read", "write"]


def test_a_job_made_by_its_old_name_is_the_same_job(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(
        "from anabranch.hooks import DrainedTask\n"
        "from anabranch.job import Job, Table\n"
        "job = Job('old')\n"
        "codes: Table = job.table('codes', key='carrier string', schema='name string')\n"
        "rows = job.read('rows', schema='carrier string')\n"
        "rows.join_table(codes, on='carrier').write('out')\n"
        "@job.on_drain\n"
        "def ended(task: DrainedTask) -> None: ...\n"
    )
    job = Job("old")
    codes = job.table("codes", key="carrier string", schema="name string")
    job.read("rows", schema="carrier string").join_table(codes, on="carrier").write("out")
    loaded = loading.load(file)
    assert _told(loaded.graph) == _told(job.graph)
    assert len(loaded.functions) == 1


def _told(graph: Graph) -> list[tuple[str, str, dict[str, Any]]]:
    return [(node.kind, node.name, node.args) for node in graph.nodes]
