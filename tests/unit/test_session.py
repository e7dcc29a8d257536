"""What Spark is told for a container."""

from __future__ import annotations

import pytest

from anabranch.config import Settings, SparkSettings, StorageSettings
from anabranch.spark import session


@pytest.mark.parametrize(
    ("root", "manager"),
    [
        ("/data/lanes", "FileSystemBasedCheckpointFileManager"),
        ("file:///data/lanes", "FileSystemBasedCheckpointFileManager"),
        ("hdfs://name:8020/lanes", None),
        ("s3a://bucket/lanes", None),
    ],
)
def test_checkpoints_are_renamed_by_the_cheap_way_only_where_a_lock_keeps_others_out(
    root: str, manager: str | None
) -> None:
    (name,) = session.LOCAL_SETTINGS
    found = session.conf(Settings(storage=StorageSettings(root=root))).get(name)
    assert (found and found.rpartition(".")[2]) == manager


def test_the_users_settings_win() -> None:
    given = {"spark.speculation": "true", **session.SPARKS_OWN}
    found = session.conf(Settings(spark=SparkSettings(conf=given)))
    assert {name: found[name] for name in given} == given
