"""Finds uses of Spark's private surface outside of ``anabranch.spark.internals``: ``private_spark.py FOLDER...``

PySpark's names that begin with an underscore and lead to its Java objects, its modules that only Spark itself imports,
and the names of its Java classes.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ALLOWED = re.compile(
    r"src/anabranch/spark/internals/|tests/support/spark_java\.py$"
    r"|tests/unit/scripts/test_private_spark\.py$|tests/integration/test_private_surfaces\.py$"
)
"""The package itself, what tests break in Spark, and the tests of this and of the package."""

NAMES = frozenset(
    {
        "_accumulatorServer",
        "_active_spark_context",
        "_enable_debugging_cache",
        "_gateway",
        "_jc",
        "_jdf",
        "_jreader",
        "_jrdd",
        "_jsc",
        "_jsparkSession",
        "_jsq",
        "_jvm",
        "_jwrite",
        "_make_type_verifier",
        "_statefulProcessorApiClient",
        "_streamingCheckpointManager",
    }
)
MODULES = (
    "pyspark.daemon",
    "pyspark.errors.utils",
    "pyspark.java_gateway",
    "pyspark.serializers",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.proto",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.worker",
)
_OF_SETTINGS = re.compile(r"org\.apache\.spark\.sql\.execution\.streaming\.(?:checkpointing|state\.RocksDB\w+)\b")
"""Classes that are values of Spark's settings."""
_CLASS = re.compile(r"\borg\.apache\.spark\.(?!deploy\.|scheduler\.cluster\.k8s\.)[a-z]\w*\.")
"""Not those that whoever starts a process of Spark's names: a master, a worker, an executor on Kubernetes."""
_IN_TEXT = re.compile(rf"\.(?:{'|'.join(sorted(NAMES))})\b")


def uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the name of each use in a module, in no order."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) | ast.Name(id=name) | ast.FunctionDef(name=name) if name in NAMES:
                yield node.lineno, name
            case ast.keyword(arg=str(name)) if name in NAMES:
                yield node.value.lineno, name
            case ast.Import(names=names):
                yield from ((node.lineno, each.name) for each in names if _is_private(each.name))
            case ast.ImportFrom(module=str(module), names=names):
                for each in names:
                    whole = f"{module}.{each.name}"
                    own = module.split(".")[0] == "pyspark" and each.name.startswith("_")
                    if own or _is_private(whole) or each.name in NAMES:
                        yield node.lineno, whole
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                if text in NAMES or _IN_TEXT.search(text) or (_CLASS.search(text) and not _OF_SETTINGS.search(text)):
                    yield node.lineno, text.strip().splitlines()[0][:60]


def _is_private(module: str) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in MODULES)


def found(folders: list[Path]) -> list[str]:
    """What is to be mended: ``file:line: name``."""
    several = []
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            if not ALLOWED.search(file.as_posix()):
                told = sorted(set(uses(ast.parse(file.read_text(), str(file)))))
                several += [f"{file}:{line}: {name}" for line, name in told]
    return several


def main() -> None:
    lines = found([Path(each) for each in sys.argv[1:]])
    if lines:
        print(*lines, sep="\n")
        sys.exit(
            "private parts of Spark belong into anabranch.spark.internals: use a module there, or add one with a probe"
        )


if __name__ == "__main__":
    main()
