"""The JVMs of tests start with Spark's classes from an archive."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pyspark

from tests.support import jvm


def test_spark_starts_with_the_archive() -> None:
    """A JVM that rejects the archive is silently slower. With -Xshare:on, it must accept the archive or fail."""
    assert jvm.ARCHIVE.exists(), "there is no archive of Spark's classes: python -m tests.support.jvm makes it"
    options = jvm.QUICK["SPARK_SUBMIT_OPTS"].replace("-Xlog:disable", "-Xshare:on")
    done = subprocess.run(
        [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--version"],
        env={**os.environ, "SPARK_SUBMIT_OPTS": options},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "version" in done.stdout + done.stderr
