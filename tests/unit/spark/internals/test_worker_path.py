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


def archive(folder: Path, name: str, module: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as made:
        made.writestr(f"{module}.py", "")
        made.writestr(f"{module}_package/__init__.py", "")
    return str(folder / name)


def package(site: Path, name: str) -> Path:
    """A package; returns the folder in which PySpark's package has its archives."""
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
    yield sys.path
    importlib.invalidate_caches()


def test_archives_that_spark_has_put_there_go_and_those_of_the_user_stay(
    path: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = package(tmp_path / "site", "pyspark")
    package(tmp_path / "site", "py4j")
    path.append(str(tmp_path / "site"))
    before = [*path]
    sparks = [archive(place, name, f"unused_{n}") for n, name in enumerate((JAR, PYSPARK, PY4J))]
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


@pytest.mark.parametrize("has", [[], ["pyspark"], ["py4j"], ["another"]])
def test_archives_stay_where_their_own_package_is_not_installed(
    path: list[str], tmp_path: Path, has: list[str]
) -> None:
    """As in a container of YARN: the archives are copied there, and a PySpark package may be another version's."""
    site = tmp_path / "site"
    for name in has if has != ["another"] else ["pyspark", "py4j"]:
        package(site, name)
    place = site / "pyspark" / "python" / "lib" if has != ["another"] else tmp_path / "container"
    path.append(str(site))
    jar, pyspark, py4j = (archive(place, name, f"unused_{n}") for n, name in enumerate((JAR, PYSPARK, PY4J)))
    path[:0] = [jar, pyspark, py4j]
    worker_path.drop_archives()
    assert path[:2] == [pyspark, py4j]
    assert jar not in path


@pytest.mark.parametrize("module", ["needed", "needed_package"])
def test_an_archive_from_which_a_module_was_imported_stays(path: list[str], tmp_path: Path, module: str) -> None:
    place = package(tmp_path / "site", "pyspark")
    package(tmp_path / "site", "py4j")
    path.append(str(tmp_path / "site"))
    needed, jar = archive(place, PYSPARK, "needed"), archive(place, JAR, "unused")
    path[:0] = [jar, needed]
    importlib.import_module(module)
    worker_path.drop_archives()
    assert needed in path
    assert jar not in path
