"""Code that isn't what was loaded is neither handed over nor stored."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.cli import start
from anabranch.config import Settings
from anabranch.errors import ConflictError, UsageError
from anabranch.job_code import artifact
from anabranch.launch import loaded_code, loading
from anabranch.launch.own_program import PackedCode
from anabranch.spark.session import cluster
from tests.unit.job_code.archives import git

JOB = """\
from anabranch import Job
import helper

job = Job("delays")
job.read("flights", key="k string", schema="n int").write(helper.OUT)
"""
EDITS = ("", "job.py", "helper.py", "gone", "unused.py")


@pytest.fixture(params=EDITS)
def edited(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[loading.JobFile, Path | None]:
    """A loaded job, and the file in which the job that was loaded is no longer there."""
    (tmp_path / "job.py").write_text(JOB)
    (tmp_path / "helper.py").write_text('OUT = "late"\n')
    (tmp_path / "unused.py").write_text("")
    file = loading.load(tmp_path / "job.py")
    match request.param:
        case "":
            return file, None
        case "gone":
            (tmp_path / "helper.py").unlink()
            return file, tmp_path / "helper.py"
    with (tmp_path / request.param).open("a") as module:
        module.write("# edited\n")
    return file, None if request.param == "unused.py" else tmp_path / request.param


@pytest.mark.parametrize("home", ["packed", "image"])
def test_start_hands_over_only_what_was_loaded(edited: tuple[loading.JobFile, Path | None], home: str) -> None:
    file, changed = edited
    handed: list[str] = []
    client: Any = SimpleNamespace(put_artifact=lambda sha256, content: handed.append(sha256))
    prepared: Any = SimpleNamespace(file=file)
    settings = Settings.model_validate({"job": {"artifact": "image"} if home == "image" else {}})
    if changed is None:
        sha256, code = start.packed(prepared, settings)
        start.put(client, code)
        assert sha256 == (handed or [artifact.fingerprint(file.path.parent)])[0]
        assert bool(handed) is (home == "packed")
        return
    with pytest.raises(ConflictError, match=f"{changed} was changed after the job was loaded"):
        start.packed(prepared, settings)


def test_run_stores_only_what_was_loaded(edited: tuple[loading.JobFile, Path | None]) -> None:
    file, changed = edited
    packed, why = PackedCode(file.path.parent).result()
    assert (packed is None) is (changed is not None)
    assert why == ("" if changed is None else f"{changed} was changed after the job was loaded")


def test_code_that_was_not_loaded_is_not_compared(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text("a = 1\n")
    assert loaded_code.changed(tmp_path, artifact.pack(tmp_path)) is None


@pytest.mark.parametrize("how", ["ignored", "linked"])
def test_code_without_a_module_of_the_job_is_not_handed_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    (home / "job.py").write_text(JOB)
    (elsewhere if how == "linked" else home / "helper").mkdir()
    if how == "linked":
        (home / "helper").symlink_to(elsewhere)
    else:
        git(home, "init", "-q")
        (home / ".gitignore").write_text("helper/\n")
    (home / "helper" / "__init__.py").write_text('OUT = "late"\n')
    file = loading.load(home / "job.py")
    prepared: Any = SimpleNamespace(file=file)
    told = f"{home}/helper/__init__.py is a module of the job, but isn't packed with the job's code"
    with pytest.raises(UsageError, match=told):
        start.packed(prepared, Settings())
    cluster.shipped({}, file.home)  # only warns, because the job may run without the module
    assert told in capsys.readouterr().out
    packed, why = PackedCode(home).result()
    assert (packed, why.startswith(told)) == (None, True)
    assert start.packed(prepared, Settings.model_validate({"job": {"artifact": "image"}}))[1] is None
