"""What is on the module search path of Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession


def test_no_python_worker_reads_the_directories_of_sparks_archives_again(spark: SparkSession) -> None:
    """Each new worker would do that, for each archive that is on its path."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    def archives() -> str:
        import sys

        found = [path for path, finder in sys.path_importer_cache.items() if "zipimport" in type(finder).__module__]
        return " ".join([*found, *(path for path in sys.path if path.endswith((".jar", "pyspark.zip", "-src.zip")))])

    class Reader(DataSourceReader):
        def partitions(self) -> list[InputPartition]:
            return [InputPartition(archives())]

        def read(self, partition: InputPartition) -> Iterator[tuple[str, str]]:
            yield "planning", partition.value
            yield "task", archives()

    class Looking(DataSource):
        @classmethod
        def name(cls) -> str:
            return "looking"

        def schema(self) -> str:
            return "process string, archives string"

        def reader(self, schema: Any) -> DataSourceReader:
            return Reader()

    spark.dataSource.register(Looking)
    rows = spark.read.format("looking").load().collect()
    assert {row.process: row.archives for row in rows} == {"planning": "", "task": ""}
