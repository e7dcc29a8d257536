"""The check that finds uses of Spark's private parts where they don't belong."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import private_spark

from tests.support.paths import ROOT


@pytest.mark.parametrize(
    "line",
    [
        "spark._jvm.java.lang.System.gc()",
        "plan = frame._jdf.queryExecution()",
        'getattr(query, "_jsq")',
        "SimpleNamespace(_jsq=None)",
        'spark.newSession()._jsparkSession = "x"',
        "import pyspark.worker",
        "from pyspark.daemon import manager",
        "from pyspark.errors import utils",
        "from pyspark.sql.types import StructType, _make_type_verifier",
        'loader.loadClass("org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution")',
        "JOB = 'def harm(frame): frame.sparkSession._jvm.stop()'",
        "JOB = f'{frame}.sparkSession._jvm.stop()'",
    ],
)
def test_a_use_is_found(line: str) -> None:
    assert [number for number, _ in private_spark.uses(ast.parse(f"x = 1\n{line}\n"))] == [2]


@pytest.mark.parametrize(
    "line",
    [
        "from pyspark.sql import SparkSession, functions as F",
        "from pyspark.errors import AnalysisException",
        "self._java = spark.range(1)",
        '"""It uses ``spark._jvm``, and org.apache.spark.sql.execution.QueryExecution."""',
        'conf = {"a": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"}',
        'words = ["spark-class", "org.apache.spark.deploy.master.Master"]',
    ],
)
def test_all_else_is_not(line: str) -> None:
    assert [*private_spark.uses(ast.parse(line))] == []


def test_it_fails_and_names_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "mine.py").write_text("def f(spark):\n    return spark._jvm\n")
    ran = subprocess.run(
        [sys.executable, ROOT / "scripts" / "private_spark.py", tmp_path], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 1
    assert ran.stdout == f"{tmp_path}/deep/mine.py:2: _jvm\n"
    assert "anabranch.spark.internals" in ran.stderr


@pytest.mark.long
def test_there_is_none_in_this_repository() -> None:
    assert private_spark.found([ROOT / "src", ROOT / "tests"]) == []
