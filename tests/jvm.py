"""Classes that Spark loads, kept for later JVMs: a process of the acceptance tests starts in half the time."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pyspark
from pyspark import SparkContext

from anabranch.spark import session

_FOLDER = Path(__file__).parents[1] / ".pytest_cache" / "jvm"
_DUMPING = 60.0


def archive() -> Path:
    """Where the classes are kept for this Java, this PySpark and this place of it."""
    java, _ = session.java_version()
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    named = "\n".join([said, pyspark.__version__, str(Path(pyspark.__file__).parent)])
    return _FOLDER / f"{hashlib.sha256(named.encode()).hexdigest()[:12]}.jsa"


def with_archive() -> dict[str, str]:
    """What a process needs in its environment for its JVM to begin with the kept classes, if there are any."""
    kept = archive()
    return {"SPARK_SUBMIT_OPTS": f"-XX:SharedArchiveFile={kept}"} if kept.is_file() else {}


def keep_classes() -> None:
    """Let the JVM that this process starts next keep its classes when it ends, if none are kept yet."""
    kept = archive()
    if not kept.is_file():
        kept.parent.mkdir(parents=True, exist_ok=True)
        os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:ArchiveClassesAtExit={kept}"


def end() -> None:
    """End this process's JVM, whose session was stopped, and wait until it has gone."""
    os.environ.pop("SPARK_SUBMIT_OPTS", None)
    gateway = SparkContext._gateway
    assert gateway is not None
    process = gateway.proc
    gateway.shutdown()
    process.stdin.close()
    process.wait(_DUMPING)
    SparkContext._gateway = SparkContext._jvm = None
