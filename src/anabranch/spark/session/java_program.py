"""Finds the Java that Spark would run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from anabranch.deadlines import run_within
from anabranch.errors import AnabranchError

__all__ = ["ENDS_WITHIN", "Java", "option", "resolve", "run"]

ENDS_WITHIN = 60.0
"""Seconds after which ``java``, started only to print its version, counts as hanging. Usually, one is enough."""

_CURE = "install Java 17 or 21 (apt-get install openjdk-17-jdk-headless, brew install openjdk@17), or set JAVA_HOME"


@dataclass(frozen=True)
class Java:
    """A Java installation.

    Attributes:
        version: the major version.
        build: what ``java -version`` prints, which differs between builds.
    """

    path: str
    version: int
    build: str


def resolve() -> Java:
    """The Java that Spark would run: ``$JAVA_HOME/bin/java`` if ``JAVA_HOME`` is set, otherwise the first ``java`` on
    ``PATH``.

    Raises:
        AnabranchError: there is no Java, the version of Java is below 17, or the version can't be determined, for
            example because ``java`` hangs.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        raise AnabranchError(f"there is no Java: {java or 'no java on PATH, and JAVA_HOME is not set'}", _CURE)
    _, printed = run(java, "-version")
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is None or int(version[1]) < 17:
        known = version[1] if version else "of an unknown version"
        raise AnabranchError(f"{java} is Java {known}; Spark needs 17 or 21", _CURE)
    return Java(java, int(version[1]), printed)


def run(java: str, *options: str) -> tuple[int, str]:
    """Run ``java`` with options that make it exit at once. Returns its exit code and what it printed.

    Raises:
        AnabranchError: ``java`` can't be run, or doesn't exit in time.
    """
    command = [java, *options]
    late = f"{shlex.join(command)} doesn't end within {ENDS_WITHIN:g} s"
    with tempfile.TemporaryFile() as output:
        try:
            code = run_within(command, ENDS_WITHIN, lambda: AnabranchError(late, _CURE), output=output)
        except OSError as error:
            raise AnabranchError(f"{java} can't be run: {error.strerror or error}", _CURE) from error
        output.seek(0)
        return code, output.read().decode(errors="replace")


def option(text: str) -> str:
    """Quote the JVM option ``text`` for a list of options that Spark's launcher reads. An option without spaces,
    quotation marks or backslashes stays as it is.
    """
    return shlex.quote(text) if any(letter.isspace() or letter in "\"'\\" for letter in text) else text
