"""The archive of Spark's classes: for which Java and jars it is, and what becomes of older ones."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pyspark
import pytest

from anabranch.spark.session import class_archive
from anabranch.spark.session.java_program import Java

JAVA = Java("/usr/bin/java", 17, "17.0.15+6")


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Spark's jars in an environment of its own, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SPARK_SUBMIT_OPTS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    return environment(tmp_path / "mine", monkeypatch)


def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (folder / "jars").mkdir(parents=True)
    (folder / "jars" / "spark-core.jar").write_bytes(b"classes")
    monkeypatch.setattr(pyspark, "__file__", str(folder / "__init__.py"))
    return folder / "jars"


def made(java: Java = JAVA) -> Path:
    with class_archive.making(java) as part:
        part.write_bytes(b"archive")
    return class_archive.path(java)


def test_it_is_used_where_there_is_one(jars: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert class_archive.options(JAVA) == ""
    archive = made()
    assert class_archive.options(JAVA) == f"{class_archive.USE}{archive} -Xlog:cds*=off"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xshare:off")
    assert class_archive.options(JAVA) == "", "whoever starts the process has decided otherwise"


@pytest.mark.parametrize("folder", ["a b", 'with "quotes"', "it's", "a\\b", "plain"])
def test_it_may_be_in_a_folder_of_any_name(jars: Path, monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(jars.parent / folder))
    archive = made()
    use, *_ = shlex.split(class_archive.options(JAVA))
    assert use == f"{class_archive.USE}{archive}"


def test_it_is_of_one_java_and_of_the_jars_as_they_are(jars: Path) -> None:
    archive = made()
    assert class_archive.path(Java("/usr/bin/java", 17, "17.0.16+8")) != archive
    os.utime(jars / "spark-core.jar", ns=(0, 0))
    assert class_archive.path(JAVA) != archive


def test_none_is_left_of_one_that_was_not_finished(jars: Path) -> None:
    def killed(part: Path) -> None:
        part.write_bytes(b"arch")
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"), class_archive.making(JAVA) as part:
        killed(part)
    assert not list(class_archive.path(JAVA).parent.iterdir())
    with pytest.raises(FileNotFoundError), class_archive.making(JAVA):
        pass
    assert class_archive.options(JAVA) == ""
    left, under_way = (class_archive.path(JAVA).with_name(f"{each}.part") for each in (1, 2))
    left.touch()
    os.utime(left, (0, 0))
    under_way.touch()
    archive = made()
    assert set(archive.parent.glob("*.part")) == {under_way}, "the other is of a process that was killed"


def test_those_that_no_jvm_accepts_any_more_are_removed(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outdated = made()
    (jars / "spark-core.jar").write_bytes(b"newer classes")
    current, of_another_java = made(), made(Java("/opt/java", 21, "21.0.8+9"))
    assert not outdated.parent.exists()
    assert current.exists()
    gone = environment(tmp_path / "gone", monkeypatch)
    of_gone = made()
    (gone / "spark-core.jar").unlink()
    gone.rmdir()
    monkeypatch.setattr(pyspark, "__file__", str(jars.parent / "__init__.py"))
    made()
    assert not of_gone.parent.exists()
    assert current.exists()
    assert of_another_java.exists()
