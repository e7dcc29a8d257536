"""How the JVMs of tests are started. ``python -m tests.support.jvm`` archives Spark's classes for them."""

from __future__ import annotations

import sys

from anabranch.cli import archiving
from anabranch.spark.session import class_archive, java_program

COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""They live for seconds or minutes: the quick compiler alone halves what they need of the processor, and a tenth less
is needed where Spark's classes aren't verified."""

_MEMORY = "-XX:+UseSerialGC -Xms512m -Xmn256m -XX:ReservedCodeCacheSize=240m"

ARCHIVE = class_archive.path(java_program.resolve())
START = f"{COMPILER} -Xlog:disable {class_archive.USE}{ARCHIVE}" if ARCHIVE.exists() else COMPILER
"""With the classes kept, a JVM that runs a job needs 8 of 60 s less of the processor."""

QUICK = {"SPARK_SUBMIT_OPTS": f"{START} {_MEMORY}"}

if __name__ == "__main__":
    archiving.make(lambda line: print(line, file=sys.stderr))
