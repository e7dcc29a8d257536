"""Which operator is named for an error of Spark's, and on which offsets."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from anabranch import Job
from anabranch.container import surroundings
from anabranch.container.checkpoint import damage
from anabranch.container.checkpoint.lane_folders import LaneFolders
from anabranch.container.error_text import Failure, Remedy
from anabranch.container.lane import error_attribution
from anabranch.errors import AnabranchError, LogError, NotFoundError, OperatorError, StateError
from anabranch.model.graph import Node
from tests.support.paths import EXCEPTIONS

FAILURES = EXCEPTIONS
SQL = """[CAST_INVALID_INPUT] The value 'x' of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018
== SQL (line 1, position 1) ==
cast(dest as int)
^^^^^^^^^^^^^^^^^
"""
FRAME = """[DIVIDE_BY_ZERO] Division by zero.
== DataFrame ==
"__truediv__" was called from
jobs.py:12
"""


def nodes(transforms: int = 1) -> tuple[Node, ...]:
    job = Job("j")
    rows = job.read("a", key="k string", schema="dest string")
    rows = rows.where("dest <> 'z'").select("k", "cast(dest as int) as n")
    for number in range(transforms):
        rows = rows.transform(lambda frame: frame, name=f"own-{number}")
    rows.write("out")
    return job.graph.nodes


RANGES = {"embedded/a/1": (7, 7), "embedded/a/0": (5, 9), "embedded/a/2": (0, 1)}


def test_the_operator_whose_sql_it_is() -> None:
    found = error_attribution.operator_error(SQL, "the first line", nodes(), RANGES)
    assert found is not None
    assert found.what.startswith("select 'select' (")
    assert found.what.endswith("): the first line, on offsets 5 to 8 of embedded/a/0, offsets 0 to 0 of embedded/a/2")
    assert "try_cast" in found.cure


def test_the_only_transform_for_what_it_says_of_a_line() -> None:
    found = error_attribution.operator_error(FRAME, "Division by zero.", nodes(), {})
    assert found is not None
    assert found.what.startswith("transform 'own-0' (")
    assert found.what.endswith("): Division by zero. at jobs.py:12")


def test_nobody_is_named_without_a_reason() -> None:
    assert error_attribution.operator_error(FRAME, "x", nodes(transforms=2), {}) is None
    assert error_attribution.operator_error(FRAME, "x", nodes(transforms=0), {}) is None
    assert error_attribution.operator_error("java.io.IOException: disk full", "x", nodes(), {}) is None
    assert error_attribution.operator_error(SQL.replace("dest", "other"), "x", nodes(transforms=0), {}) is None


def test_a_real_error_of_spark_s() -> None:
    text = (FAILURES / "divide_by_zero.txt").read_text()
    job = Job("j")
    job.read("a", schema="n int").select("1 / (n - n) as x").write("out")
    found = error_attribution.operator_error(text, "Division by zero.", job.graph.nodes, {})
    assert found is not None
    assert found.what.startswith("select 'select' (")


NO_BROKER = "the Kafka cluster b:9092 didn't answer for 15 s"
AWAY = "Query terminated\nCaused by: org.apache.kafka.common.errors.TimeoutException: describeTopics\n"
FULL = "No space left on device"


@pytest.fixture
def attributed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Failure]:
    """What is reported for an error, given what is wrong with the lane's inputs, and which disks are full."""

    def found(error: Exception, wrong: Exception | None = None, full: tuple[str, ...] = ()) -> Failure:
        def check(_: object) -> None:
            if wrong is not None:
                raise wrong

        monkeypatch.setattr(surroundings, "full_disks", lambda _: [*full])
        monkeypatch.setattr(damage, "check", lambda *_: None)
        attempt = SimpleNamespace(
            lane=None,
            lane_folders=LaneFolders(cast(Any, None), "/root", Path(), cast(Any, SimpleNamespace(all=()))),
            folder_in_use=object(),
            inputs=SimpleNamespace(check=check),
            started=None,
            query=SimpleNamespace(
                job=SimpleNamespace(home="/home/me/job"), plan=SimpleNamespace(operators=nodes(transforms=0))
            ),
            pending_ranges=dict,
        )
        return error_attribution.attributed(cast(Any, attempt), error)

    return found


@pytest.mark.parametrize("wrong", [None, AnabranchError(NO_BROKER), LogError(f"/log/in/0 can't be read: {FULL}")])
def test_a_lane_waits_if_its_inputs_can_t_be_examined_either(attributed: Any, wrong: Exception | None) -> None:
    failed = attributed(RuntimeError(AWAY), wrong)
    assert (failed.remedy, failed.awaits) == (Remedy.WAIT, "the brokers of Kafka")


def test_inputs_that_can_t_be_examined_do_not_hide_the_error(attributed: Any) -> None:
    failed = attributed(RuntimeError("x\nCaused by: java.lang.NullPointerException\n"), AnabranchError(NO_BROKER))
    assert (failed.what, failed.remedy) == ("NullPointerException", Remedy.PROCESS)


@pytest.mark.parametrize("kind", [NotFoundError, StateError, LogError])
def test_inputs_that_are_known_to_be_wrong_are_told_and_not_waited_for(attributed: Any, kind: Any) -> None:
    failed = attributed(RuntimeError(AWAY), kind("stream kafka/in is gone"))
    assert (failed.what, failed.remedy) == ("stream kafka/in is gone", Remedy.NONE)


QUOTING = (
    OperatorError("foreach_batch 'f' (job.py:9) raised gaierror: [Errno -2] Name or service not known, on batch 0"),
    RuntimeError(f"x\nanabranch.errors.OperatorError: map 'm' (job.py:9) raised ValueError: {FULL}, on offset 3\n\n"),
    RuntimeError(f"x\nanabranch.errors.OperatorError: map 'm' (job.py:9) raised OSError: {NO_BROKER}\n\n"),
    RuntimeError(SQL.replace("'x'", f"'{FULL}'")),
    RuntimeError(SQL.replace("'x'", f"'{NO_BROKER}'")),
    RuntimeError(FRAME.replace("by zero.", f"by {FULL}").replace("jobs.py", "elsewhere.py")),
)


@pytest.mark.parametrize("error", QUOTING)
def test_what_the_job_s_code_says_or_a_value_in_it_is_not_waited_for(attributed: Any, error: Exception) -> None:
    failed = attributed(error)
    assert (failed.remedy, failed.awaits) == (Remedy.ATTEMPT, "")
    assert "without intervention" not in failed.told


@pytest.mark.parametrize("error", [each for each in QUOTING if FULL in str(each)])
def test_but_a_disk_that_is_full_is(attributed: Any, error: Exception) -> None:
    full = "the disk of /root has 0 bytes free"
    failed = attributed(error, full=(full,))
    assert (failed.remedy, failed.awaits, failed.reasons[-1]) == (Remedy.WAIT, "room on a disk", full)


def test_a_disk_that_is_full_elsewhere_is_waited_for_without_looking(attributed: Any) -> None:
    """Perhaps it is the disk of another machine."""
    assert attributed(RuntimeError(f"x\nCaused by: java.io.IOException: {FULL}\n")).remedy is Remedy.WAIT


@pytest.mark.parametrize(
    ("root", "looked_at"),
    [("/data/a#b", ["/data/a#b"]), ("file:///data/a%20b?c", ["/data/a%20b?c"]), ("hdfs://names/lanes", [])],
)
def test_the_disk_of_a_local_storage_root_is_looked_at(
    root: str, looked_at: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[str] = []

    def full_disks(given: Iterable[str]) -> list[str]:
        places.extend(given)
        return []

    monkeypatch.setattr(surroundings, "full_disks", full_disks)
    lane_folders = LaneFolders(cast(Any, None), root, Path(), cast(Any, SimpleNamespace(all=())))
    lane_folders.explained(Failure(FULL, awaits=surroundings.DISK.name))
    assert places == [*looked_at, tempfile.gettempdir()]
