"""Describes the layout of Spark's checkpoints. anabranch relies on this layout when it copies, divides or changes a
lane's folder, for example to write a planned batch.

:mod:`anabranch.container.checkpoint.folder` reads and changes checkpoints.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

from anabranch.spark.internals import java
from anabranch.spark.internals.surface import JavaMembers, Surface

__all__ = ["OFFSETS", "OPERATORS", "SCHEMAS", "SURFACE", "probe", "relocated"]

OFFSETS = "v1"
"""The first line of an entry of ``offsets`` and ``commits``."""

SCHEMAS = ("*/_metadata", "*/*/_metadata", "*/*/*/_metadata", "*/_stateSchema")
"""The folders below ``state`` that contain the schemas of operators, of state partitions, and of state stores."""

OPERATORS = "*/_metadata/v2/*"
"""The files below ``state`` in which a ``process`` operator describes its state. They contain the absolute paths of the
state's schemas.
"""

_CHECKPOINTING = "org.apache.spark.sql.execution.streaming.checkpointing"
_METADATA = "org.apache.spark.sql.execution.streaming.state.OperatorStateMetadataV2"
_VERSIONS = {
    "spark.sql.streaming.offsetLog.formatVersion": ("1",),
    "spark.sql.streaming.stateStore.checkpointFormatVersion": ("1", "2"),
}
"""The format versions that anabranch can read, for each of Spark's settings that determines a format version."""


def _others(spark: SparkSession) -> str:
    offsets = java.singleton(spark, f"{_CHECKPOINTING}.OffsetSeqLog")
    commits = java.singleton(spark, f"{_CHECKPOINTING}.CommitLog")
    found = f"v{offsets.VERSION_1()}", f"v{commits.VERSION_1()}", offsets.SERIALIZED_VOID_OFFSET()
    if found != (OFFSETS, OFFSETS, "-"):
        return f"its logs of offsets and commits have the marks {', '.join(map(str, found))}"
    for name, known in _VERSIONS.items():
        if (written := spark.conf.get(name, known[0])) not in known:
            return f"it writes version {written} ({name})"
    return ""


SURFACE = Surface(
    "checkpoint_layout",
    "the folders of lanes: planned batches, copies and splits of state",
    [
        JavaMembers(f"{_CHECKPOINTING}.OffsetSeqLog$", ("VERSION_1", "SERIALIZED_VOID_OFFSET")),
        JavaMembers(f"{_CHECKPOINTING}.CommitLog$", ("VERSION_1",)),
        JavaMembers(_METADATA, ("operatorPropertiesJson", "stateStoreInfo")),
    ],
    tried=_others,
)
probe = SURFACE.probe


def relocated(text: str, state: str) -> str:
    """Change the paths of schemas in the text of one of the ``OPERATORS`` files, so that they lead into the folder
    ``state``. Returns the new text.

    Args:
        state: the absolute path of the folder that contains all state.
    """
    version, told = text.split("\n", 1)
    metadata = json.loads(told)
    for store in metadata["stateStoreInfo"]:
        paths = store.get("stateSchemaFilePaths", ())
        store["stateSchemaFilePaths"] = [f"{state}/{'/'.join(path.split('/')[-4:])}" for path in paths]
    return f"{version}\n{json.dumps(metadata)}"
