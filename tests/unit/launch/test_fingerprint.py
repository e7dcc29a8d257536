"""What a deployment stores of the job that it was started with: a job of before must still find itself the same."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from anabranch import Job
from anabranch.config import Settings
from anabranch.launch import fingerprint, loading, preparation
from anabranch.systems.embedded import EmbeddedSystem

STORED = {
    "operator flights": "5e9fe17613e4",
    "operator by-dest": "4e3a9a50d06f",
    "operator agg": "79f0155336c0",
    "operator delays": "2efbc502a96f",
    "partitions of embedded/flights": "2",
    "partitions of embedded/counted-by-dest-1": "2",
    "output stream counted-by-dest-1": "",
    "output stream flights-dead-letters": "",
    "output stream delays": "",
    "factor": "1",
    "grouper": "partition",
    "containers": "1",
    "state_partitions": "4",
    "watermark_scope": "ssp",
}
"""As 84e092b wrote it."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    EmbeddedSystem(tmp_path).create("flights", partitions=2)
    return Settings.model_validate({"systems": {"embedded": {"root": tmp_path}}})


def counted() -> Job:
    job = Job("counted")
    flights = job.read("flights", key="tailnum string", schema="dest string")
    flights.partition_by("dest").agg(n="count(*)").write("delays")
    return job


def test_a_fingerprint_is_as_earlier_commits_stored_it(settings: Settings) -> None:
    file = loading.of(counted())
    plan = preparation.plan(file, settings)
    assert fingerprint.of(file.graph, plan, settings) == STORED


def test_another_expression_is_another_job(settings: Settings) -> None:
    file = loading.of(counted())
    plan = preparation.plan(file, settings)
    nodes = [
        msgspec.structs.replace(node, args={**node.args, "aggregates": {"n": "sum(1)"}}) if node.kind == "agg" else node
        for node in file.graph.nodes
    ]
    other = fingerprint.of(msgspec.structs.replace(file.graph, nodes=tuple(nodes)), plan, settings)
    assert {name for name in STORED if other[name] != STORED[name]} == {"operator agg"}
