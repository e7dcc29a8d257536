"""Class files are read as Java has written them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from anabranch.spark.internals import class_files

SOURCE = """
public class Sample extends java.util.ArrayList<String> implements Runnable, java.io.Closeable {
    public static final long LARGE = 1L << 40;
    private final double half = 0.5;
    private String named(String it) { return it + LARGE + half; }
    public void run() { named("x"); ((Runnable) () -> named("y")).run(); }
    @Deprecated public void close() { }
}
"""


def test_members_and_parents_are_those_of_the_source(tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("there is no javac here")
    (tmp_path / "Sample.java").write_text(SOURCE)
    subprocess.run(["javac", "-nowarn", "Sample.java"], cwd=tmp_path, check=True, capture_output=True)
    found = class_files.parsed((tmp_path / "Sample.class").read_bytes())
    assert found.members >= {"LARGE", "half", "named", "run", "close", "<init>"}
    assert "add" not in found.members
    assert found.parents == ("java.util.ArrayList", "java.lang.Runnable", "java.io.Closeable")


def test_something_else_is_refused() -> None:
    with pytest.raises(ValueError, match="no Java class file"):
        class_files.parsed(b"PK\x03\x04 a jar")
