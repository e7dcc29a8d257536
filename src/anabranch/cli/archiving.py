"""Makes the archive from which later JVMs load Spark's classes.

``python -m anabranch.cli.archiving`` runs a small job, after which the JVM writes the archive. See
:mod:`anabranch.spark.session.class_archive`.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from anabranch.config import Settings
from anabranch.deadlines import run_within
from anabranch.errors import AnabranchError

__all__ = ["MADE_WITHIN", "make"]

MADE_WITHIN = 900.0
"""The time limit for making the archive, in seconds. Usually, making the archive takes up to a minute."""
_CURE = "jobs run without it, and only start later; see that Java is complete, and try again"


def make(say: Callable[[str], None]) -> Path:
    """Return the path of the archive. If there is no archive that Java accepts, make one first.

    Raises:
        AnabranchError: there is no Java, or the JVM didn't write an archive in time.
    """
    from anabranch.spark.session import class_archive, java_program
    from anabranch.spark.session.printed import last_lines

    java = java_program.resolve()
    archive = class_archive.path(java)
    if class_archive.is_accepted(java):
        return archive
    say("making an archive of Spark's classes, so that jobs start sooner (a minute or less) ...")
    with class_archive.making(java) as part:
        makes = java_program.option(f"{class_archive.MAKE}{part}")
        options = f"{os.environ.get('SPARK_SUBMIT_OPTS', '')} -Xlog:disable {makes}"
        command = [sys.executable, "-P", "-m", "anabranch.cli.archiving"]
        with tempfile.TemporaryFile() as output:
            env = {**os.environ, "SPARK_SUBMIT_OPTS": options.strip()}
            late = AnabranchError(f"no archive of Spark's classes was made within {MADE_WITHIN:g} s", _CURE)
            code = run_within(command, MADE_WITHIN, lambda: late, env=env, output=output)
            if code or not part.is_file():
                output.seek(0)
                raise AnabranchError(f"no archive of Spark's classes was made: {last_lines(output)}", _CURE)
    return archive


def main() -> None:
    """Run the warm-up job in a session, and wait for the JVM to end."""
    from anabranch.cli import warming
    from anabranch.spark.internals import java_process
    from anabranch.spark.session import session

    settings = Settings.model_validate({"spark": {"master": "local[2]", "memory": "1g"}})
    spark = session.start(settings)
    try:
        warming.warm(spark, threading.Event())
    finally:
        java_process.end(spark)


if __name__ == "__main__":
    main()
