"""A job file that holds what can't be copied to another process, run for real."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from anabranch.launch import loading
from anabranch.testing import run
from tests.integration.harness import Site
from tests.jobs import JOBS

HELD = JOBS / "held" / "job.py"


def test_a_job_file_may_hold_what_can_t_be_copied(site: Site) -> None:
    result = run(HELD, {"rows": [{"k": "a", "n": 1}, {"k": "b", "n": 2}]}, state_partitions=2)
    wanted = {node.name for node in loading.load(HELD).graph.nodes if node.kind == "map"}
    wanted |= {"flat", "arrow", "udf", "process"}
    assert Counter(row["how"] for row in result["out"]) == dict.fromkeys(wanted, 2)


def test_workers_have_the_environment_of_each_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "job.py"
    file.write_text(
        "import os\nfrom anabranch import Job\nURL = os.environ.get('TEST_URL', 'real')\njob = Job('asking')\n"
        "asked = lambda m: {'top': URL, 'now': os.environ.get('TEST_URL', 'real')}\n"
        "job.read('rows', schema='n int').map(asked, schema='top string, now string').write('out')\n"
    )
    for url in ("real", "fake", "another", "real"):
        monkeypatch.setenv("TEST_URL", url) if url != "real" else monkeypatch.delenv("TEST_URL", raising=False)
        assert run(file, {"rows": [{"n": 1}]})["out"] == [{"top": url, "now": url}]
