"""What ``deploy`` sends to a coordinator, and what it does before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anabranch import config
from anabranch.cli import deploy
from anabranch.launch import loading, preparation
from anabranch.systems.embedded import EmbeddedSystem
from tests.support.registry import serving

JOB = """\
from anabranch import Job

job = Job("delays")
job.read("flights", key="k string", schema="n int").write("late")
"""
SCHEMA = {"type": "record", "name": "Late", "fields": [{"name": "n", "type": ["null", "int"], "default": None}]}


class Client:
    def put_artifact(self, sha256: str, content: bytes) -> None: ...


@pytest.mark.parametrize("dry", [True, False])
def test_a_new_schema_is_registered_unless_it_is_only_planned(tmp_path: Path, dry: bool) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "late.avsc").write_text(json.dumps(SCHEMA))
    with serving() as registry:
        (tmp_path / "anabranch.toml").write_text(
            f'[formats]\nregistry = "{registry.url}/"\n'
            '[streams.late]\nformat = "confluent"\nschema_file = "late.avsc"\n'
        )
        settings, file = config.load(tmp_path / "anabranch.toml"), loading.load(tmp_path / "job.py")
        EmbeddedSystem(settings.systems.embedded.root).create("flights", partitions=2)
        client: Any = Client()
        plan = preparation.plan(file, settings)
        prepared = preparation.Prepared(file, settings, plan, {}, preparation.formats(file, settings))
        assert prepared.formats["late"].id == -1
        request = deploy.wished(client, prepared, settings, (), dry=dry)
        registered = registry.subjects.get("late-value", [])
    assert [request.start.formats["late"].id] == (registered or [-1])
    assert bool(registered) is not dry
