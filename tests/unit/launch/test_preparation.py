"""What is checked of the settings before a job starts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.config import Settings
from anabranch.errors import ConfigError, LogError
from anabranch.launch import loading, preparation
from anabranch.systems.embedded import EmbeddedSystem
from anabranch.systems.kafka.system import KafkaSystem

JOB = """\
from anabranch import Job

job = Job("orders")
job.read("orders", schema="amount int").write("large")
"""


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """What a test has loaded is gone when it ends."""
    path, finders = list(sys.path), list(sys.meta_path)
    yield
    sys.path[:], sys.meta_path[:] = path, finders
    sys.modules.pop("its_grouper", None)


@pytest.mark.parametrize(
    ("source", "name", "told"),
    [
        ("def f(:\n", "its_grouper:f", "can't be imported: .*SyntaxError: invalid syntax"),
        ("1 / 0\n", "its_grouper:f", "can't be imported: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(3)\n", "its_grouper:f", "can't be imported: SystemExit: 3"),
        (
            "import nosuch_module\n",
            "its_grouper:f",
            "can't be imported: No module named 'nosuch_module' at its_grouper.py:1",
        ),
        (
            "try:\n    {}['x']\nexcept KeyError as error:\n    raise RuntimeError('no x') from error\n",
            "its_grouper:f",
            "can't be imported: RuntimeError: no x at its_grouper.py:4; caused by KeyError: 'x'\n",
        ),
        ("", "its_grouper:f", "can't be imported: module 'its_grouper' has no attribute 'f'"),
        ("", ":f", "can't be imported: ValueError: Empty module name"),
        ("f = 3\n", "its_grouper:f", "is 3, not a function"),
    ],
)
def test_a_grouper_that_cannot_be_used_is_told(tmp_path: Path, source: str, name: str, told: str) -> None:
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "its_grouper.py").write_text(source)
    EmbeddedSystem(tmp_path / "streams").create("orders", partitions=2)
    settings = Settings.model_validate(
        {"systems": {"embedded": {"root": tmp_path / "streams"}}, "job": {"grouper": name}}
    )
    with pytest.raises(ConfigError, match=f"(?s)grouper '{name}' {told}") as caught:
        preparation.plan(loading.load(tmp_path / "job.py"), settings)
    assert caught.value.cure == "write module:function; the module lies beside the job"


def test_a_matching_stream_that_cannot_be_described_is_an_error(tmp_path: Path) -> None:
    """The job would run without its records, and nobody would notice."""
    (tmp_path / "job.py").write_text(JOB)
    for name in ("orders-1", "orders-2", "other"):
        EmbeddedSystem(tmp_path / "streams").create(name, partitions=2)
    (tmp_path / "streams" / "other" / "stream.json").write_bytes(b"")
    settings = Settings.model_validate(
        {"systems": {"embedded": {"root": tmp_path / "streams"}}, "streams": {"orders": {"pattern": "orders-.*"}}}
    )
    file = loading.load(tmp_path / "job.py")
    (matched,) = preparation.plan(file, settings).model.stages[0].patterns.values()
    assert matched.streams == ("orders-1", "orders-2")
    (tmp_path / "streams" / "orders-2" / "stream.json").write_bytes(b"")
    with pytest.raises(LogError, match=r"orders-2/stream\.json"):
        preparation.plan(file, settings)


def test_an_input_whose_topic_is_bound_to_another_stream_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.setattr(KafkaSystem, "counts", lambda _: {"orders": 2})
    settings = Settings.model_validate(
        {"systems": {"default": "kafka"}, "streams": {"raw-orders": {"topic": "orders", "format": "raw"}}}
    )
    with pytest.raises(ConfigError, match="the job uses the topic 'orders' under its own name"):
        preparation.plan(loading.load(tmp_path / "job.py"), settings)
