"""How the JVMs of tests are started. ``python -m tests.support.jvm`` archives Spark's classes for them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyspark

from anabranch import cache_dir

COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
"""They live for seconds or minutes: the quick compiler alone halves what they need of the processor, and a tenth less
is needed where Spark's classes aren't verified."""

_MEMORY = "-XX:+UseSerialGC -Xms512m -Xmn256m -XX:ReservedCodeCacheSize=240m"

_JARS = Path(pyspark.__file__).parent / "jars"
_OF = "jars.txt"
"""The file next to an archive that names the folder of the archive's jars."""


def _archive() -> Path:
    """The archive for this Java and these jars. A JVM accepts it only if the jars have the same paths, sizes and times
    as when it was made. Otherwise the JVM silently uses no archive at all, not even the JDK's own."""
    java = subprocess.run(["java", "-version"], capture_output=True, check=True).stderr
    jars = [(str(each), (its := each.stat()).st_size, its.st_mtime_ns) for each in sorted(_JARS.iterdir())]
    key = hashlib.sha256(java + COMPILER.encode() + repr(jars).encode()).hexdigest()[:12]
    return cache_dir.folder() / "classes" / key / "classes.jsa"


ARCHIVE = _archive()
START = f"{COMPILER} -Xlog:disable -XX:SharedArchiveFile={ARCHIVE}" if ARCHIVE.exists() else COMPILER
"""With the classes kept, a JVM that runs a job needs 8 of 60 s less of the processor."""

QUICK = {"SPARK_SUBMIT_OPTS": f"{START} {_MEMORY}"}


def main() -> None:
    """Run a job, and keep the classes that it has loaded."""
    if ARCHIVE.exists():
        return
    from tests.acceptance.harness import Workspace, flights  # it imports this module
    from tests.acceptance.processes import descendants, start_of

    print("keeping Spark's classes for the JVMs of tests, once ...", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="anabranch-classes-") as folder:
        workspace = Workspace(Path(folder))
        kept = workspace.folder / "classes.jsa"
        workspace.put(flights(seed=0, count=2000))
        options = f"{COMPILER} {_MEMORY} -Xlog:disable -XX:ArchiveClassesAtExit={kept}"
        started: dict[int, str] = {}
        try:
            process = workspace.start("run", "delays.py", "--available-now", env={"SPARK_SUBMIT_OPTS": options})
            while not process.ended:
                started |= descendants(process.popen.pid)
                time.sleep(0.1)
            if process.wait() != 0:
                sys.exit(process.stderr)
            while any(start_of(child) == since for child, since in started.items()):  # the JVM writes as its last act
                time.sleep(0.1)
        finally:
            workspace.close()
        _forget()
        ARCHIVE.parent.mkdir(parents=True, exist_ok=True)
        (ARCHIVE.parent / _OF).write_text(str(_JARS))
        part = ARCHIVE.with_suffix(".part")
        shutil.copyfile(kept, part)
        part.replace(ARCHIVE)


def _forget() -> None:
    """Remove the archives that no JVM accepts any more: those whose jars are gone, and older ones of these jars."""
    for of in ARCHIVE.parents[1].glob(f"*/{_OF}"):
        jars = Path(of.read_text())
        if jars == _JARS or not jars.exists():
            shutil.rmtree(of.parent, ignore_errors=True)


if __name__ == "__main__":
    main()
