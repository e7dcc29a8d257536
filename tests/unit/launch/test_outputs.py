"""What is checked of the outputs of a job that continues, and of its tables."""

from __future__ import annotations

import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from anabranch import Job
from anabranch.config import OutputSettings, Settings
from anabranch.errors import ConfigError, GraphError, NotFoundError, StateError
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


TOTALS = StructType([StructField("customer", StringType()), StructField("total", LongType())])
NUMBERS = StructType([StructField("customer", StringType()), StructField("number", LongType())])


def prepare_tables(job: Job, settings: Settings, *written: StructType) -> None:
    """``written``: the columns that each ``write`` writes."""
    file = loading.of(job)
    writes = [node for node in file.graph.nodes if node.kind == "write"]
    schemas = {node.inputs[0]: columns for node, columns in zip(writes, written, strict=True)}
    outputs.prepare_tables(preparation.Prepared(file, settings, preparation.plan(file, settings), schemas, {}))


def test_operators_of_one_lane_write_the_same_columns_to_a_table(settings: Settings) -> None:
    job = Job("orders")
    orders = job.read("orders", key="customer string", schema="amount int")
    orders.select("customer", "amount * 2 as total").write("totals")
    orders.select("customer", "amount as number").write("totals")
    prepare_tables(job, settings, TOTALS, StructType(TOTALS.fields[::-1]))
    with pytest.raises(GraphError, match=r"outputs\.totals: 'total' is bigint in the first, and missing in the second"):
        prepare_tables(job, settings, TOTALS, NUMBERS)


@pytest.mark.parametrize(("path", "refused"), [("one", True), ("link", True), ("two", False)])
@pytest.mark.parametrize("together", [True, False])
def test_a_lane_writes_its_outputs_to_different_tables(
    settings: Settings, tmp_path: Path, together: bool, path: str, refused: bool
) -> None:
    """A table would take the rows of the second output for a repetition. It keeps lanes apart."""
    (tmp_path / "one").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "one")
    paths = {"large": tmp_path / "one", "totals": tmp_path / path}
    bound = {name: OutputSettings(to="parquet", path=str(each)) for name, each in paths.items()}  # type: ignore[call-arg]
    job = Job("orders")
    orders = job.read("orders", key="customer string", schema="amount int")
    orders.where("amount >= 100").write("large")
    (orders.where("amount < 0") if together else orders.agg(total="sum(amount)")).write("totals")
    settings = settings.model_copy(update={"outputs": bound})
    if not (together and refused):
        prepare_tables(job, settings, TOTALS, TOTALS)
        return
    with pytest.raises(ConfigError, match=r"outputs\.large and outputs\.totals are the same table"):
        prepare_tables(job, settings, TOTALS, TOTALS)


def test_lanes_can_write_different_columns_to_a_table(tmp_path: Path) -> None:
    EmbeddedSystem(tmp_path / "streams").create("orders", partitions=2)
    path = tmp_path / "totals"
    columns = pa.schema([("customer", pa.string()), ("total", pa.int64()), ("number", pa.int64())])
    deltalake.DeltaTable.create(path, deltalake.Schema.from_arrow(columns))
    settings = Settings.model_validate(
        {
            "systems": {"embedded": {"root": tmp_path / "streams"}},
            "outputs": {"totals": {"to": "delta", "path": str(path)}},
        }
    )
    job = Job("orders")
    orders = job.read("orders", key="customer string", schema="amount int")
    orders.select("customer", "amount as total").write("totals")
    orders.agg(number="count(*)").write("totals")
    prepare_tables(job, settings, TOTALS, NUMBERS)
