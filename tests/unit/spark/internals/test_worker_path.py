"""Which archives stay on the module search path of Python workers."""

from __future__ import annotations

import importlib.util
import os
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.spark.internals import worker_path

JAR, PYSPARK, PY4J = "spark-core_2.13-4.3.0.jar", "pyspark.zip", "py4j-0.10.9.9-src.zip"
ARCHIVES = (JAR, PYSPARK, PY4J)


def archive(folder: Path, name: str, module: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as made:
        made.writestr(f"{module}.py", "")
        made.writestr(f"{module}_package/__init__.py", "")
    return str(folder / name)


def archives(folder: Path) -> list[str]:
    return [archive(folder, name, f"unused_{number}") for number, name in enumerate(ARCHIVES)]


def package(site: Path, name: str) -> Path:
    """A package; returns the folder in which PySpark's own package has its archives."""
    (site / name).mkdir(parents=True)
    (site / name / "__init__.py").touch()
    return site / name / "python" / "lib"


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The search path of a process that has imported neither PySpark nor py4j, and can't find them yet."""
    others = [each for each in sys.path if not (Path(each) / "pyspark").exists()]
    modules = {name: each for name, each in sys.modules.items() if name.partition(".")[0] not in ("pyspark", "py4j")}
    monkeypatch.setattr(sys, "path", others)
    monkeypatch.setattr(sys, "path_importer_cache", dict(sys.path_importer_cache))
    monkeypatch.setattr(sys, "modules", modules)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    yield sys.path
    importlib.invalidate_caches()


def installed(path: list[str], site: Path) -> Path:
    """PySpark and py4j, as pip installs them. Returns the folder for their archives."""
    place = package(site, "pyspark")
    package(site, "py4j")
    path.append(str(site))
    return place


def test_archives_that_spark_has_put_there_go_and_those_of_the_user_stay(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = installed(path, tmp_path / "site")
    before, sparks = [*path], archives(place)
    users = [
        archive(tmp_path, name, f"used_{n}") for n, name in enumerate(("job.zip", "spark-core.zip", "a-py4j-1.zip"))
    ]
    path[:0] = [*sparks, *users]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*sparks, *users]))
    assert importlib.util.find_spec("no_such_module") is None  # all of them are looked into
    assert {*sparks, *users} <= sys.path_importer_cache.keys()
    worker_path.drop_archives()
    assert path == [*users, *before]
    assert os.environ["PYTHONPATH"].split(os.pathsep) == users
    assert not {*sparks} & sys.path_importer_cache.keys()
    assert {*users} <= sys.path_importer_cache.keys()
    assert importlib.import_module("used_0")


def test_archives_of_a_distribution_go(path: list[str], tmp_path: Path) -> None:
    installed(path, tmp_path / "spark" / "python")
    before = [*path]
    path[:0] = archives(tmp_path / "spark" / "python" / "lib")
    worker_path.drop_archives()
    assert path == before


def test_archives_go_if_their_package_is_found_through_a_link(path: list[str], tmp_path: Path) -> None:
    (tmp_path / "linked").symlink_to(tmp_path / "site")
    installed(path, tmp_path / "site")
    path[-1] = str(tmp_path / "linked")
    before = [*path]
    path[:0] = archives(tmp_path / "site" / "pyspark" / "python" / "lib")
    worker_path.drop_archives()
    assert path == before


@pytest.mark.parametrize("has", [[], ["pyspark"], ["py4j"]])
def test_archives_stay_where_their_package_is_not_installed_whole(
    path: list[str], tmp_path: Path, has: list[str]
) -> None:
    for name in has:
        package(tmp_path / "site", name)
    (tmp_path / "site" / "py4j").mkdir(parents=True, exist_ok=True)  # what a removed package may leave
    path.append(str(tmp_path / "site"))
    jar, *needed = archives(tmp_path / "site" / "pyspark" / "python" / "lib")
    path[:0] = [jar, *needed]
    worker_path.drop_archives()
    assert path[:2] == needed
    assert jar not in path


def test_archives_stay_where_another_version_is_installed(path: list[str], tmp_path: Path) -> None:
    """As in a container of YARN, to which the archives are copied."""
    installed(path, tmp_path / "site")
    jar, *needed = archives(tmp_path / "container")
    path[:0] = [jar, *needed]
    worker_path.drop_archives()
    assert path[:2] == needed


def test_archives_stay_before_those_of_another_version(path: list[str], tmp_path: Path) -> None:
    """Without them, the others would be found before the package."""
    place = installed(path, tmp_path / "site")
    _, *needed = archives(place)
    others = [archive(tmp_path / "other", name, name.partition(".")[0].partition("-")[0]) for name in (PYSPARK, PY4J)]
    path[:0] = [*needed, *others]
    worker_path.drop_archives()
    assert path[:4] == [*needed, *others]


@pytest.mark.parametrize("module", ["needed", "needed_package"])
def test_an_archive_from_which_a_module_was_imported_stays(path: list[str], tmp_path: Path, module: str) -> None:
    place = installed(path, tmp_path / "site")
    needed, jar = archive(place, PYSPARK, "needed"), archive(place, JAR, "unused")
    path[:0] = [jar, needed]
    importlib.import_module(module)
    worker_path.drop_archives()
    assert needed in path
    assert jar not in path
