"""A job file that holds what can't be copied to another process, run for real."""

from __future__ import annotations

from collections import Counter

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
