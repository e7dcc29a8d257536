"""What is checked of the outputs of a job that continues."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from anabranch import Job
from anabranch.config import Settings
from anabranch.errors import NotFoundError, StateError
from anabranch.launch import fingerprint, loading, outputs, preparation
from anabranch.planning import plan as planning
from anabranch.planning.plan import Plan
from anabranch.systems.embedded import EmbeddedSystem
from tests.unit.planning.factory import new_id


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    EmbeddedSystem(tmp_path / "streams").create("orders", partitions=2)
    return Settings.model_validate(
        {
            "systems": {"embedded": {"root": tmp_path / "streams"}},
            "outputs": {"totals": {"to": "parquet", "path": str(tmp_path / "totals")}},
        }
    )


def large(*more: str) -> Job:
    job = Job("orders")
    orders = job.read("orders", key="customer string", schema="amount int")
    orders.where("amount >= 100").write("large")
    for name in more:
        orders.select("customer", "amount * 2 as double").write(name)
    return job


def planned(job: Job, settings: Settings) -> Plan:
    return preparation.plan(loading.of(job), settings)


def written(settings: Settings) -> set[str]:
    """What the first version writes, once it was made."""
    plan = planned(large(), settings)
    outputs.create(plan, settings)
    return outputs.written_by(planning.lanes_of(plan, 4, new_id))


def test_an_output_that_a_changed_file_adds_is_not_taken_for_one_that_is_gone(settings: Settings) -> None:
    """Seen by a new user: the advice was to restore a stream that never was, or to lose all state."""
    known = written(settings)
    outputs.check(planned(large("doubled"), settings), settings, known)


def test_an_output_that_was_written_and_is_not_there_any_more_is_named(settings: Settings, tmp_path: Path) -> None:
    known = written(settings)
    shutil.rmtree(tmp_path / "streams" / "large")
    with pytest.raises(StateError, match="the output stream 'large' of job 'orders' is gone"):
        outputs.check(planned(large("doubled"), settings), settings, known)


def test_a_table_that_a_changed_file_adds_needs_not_be_there(settings: Settings) -> None:
    known, file = written(settings), loading.of(large("totals"))
    plan = preparation.plan(file, settings)
    outputs.prepare_tables(preparation.Prepared(file, settings, plan, {}, {}, known))
    assert fingerprint.of(file.graph, plan, settings, known)["table totals"] == ""
    with pytest.raises(NotFoundError):  # one that was written must be there
        fingerprint.of(file.graph, plan, settings, {*known, "totals"})
