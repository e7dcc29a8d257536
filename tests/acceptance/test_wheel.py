"""The wheel, built and installed as a user gets it: away from the repository, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import jvm
from tests.support.paths import ROOT

pytestmark = pytest.mark.acceptance

FLIGHT = '{"product": "tea", "amount": 120, "customer": "bob"}\n'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel, which is built from the sdist, and with that."""
    folder = tmp_path_factory.mktemp("dist")
    call("-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT), cwd=folder)
    return folder


@pytest.fixture(scope="module")
def program(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``anabranch`` in an environment with nothing of the repository. What it depends on is that of these tests."""
    folder = tmp_path_factory.mktemp("environment")
    call("-m", "venv", "--without-pip", str(folder), cwd=folder)
    python = folder / "bin" / "python"
    (wheel,) = built.glob("*.whl")
    call("-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index", str(wheel), cwd=folder)
    (site,) = folder.glob("lib/python*/site-packages")
    # of a folder that is named so, no .pth counts: the repository's isn't on the path
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "bin" / "anabranch"


def call(*words: str, cwd: Path, python: str = sys.executable, env: Mapping[str, str] | None = None) -> str:
    done = subprocess.run([python, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def used(program: Path, folder: Path, *words: str, text: str = "") -> str:
    """What a verb prints on stdout, called in an environment without anything of ours."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("ANABRANCH", "PYTHON"))}
    env = {**outside, "SPARK_SUBMIT_OPTS": jvm.START, "VIRTUAL_ENV": str(program.parents[1])}
    done = subprocess.run(
        [str(program), *words], cwd=folder, env=env, input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def test_it_can_be_published(built: Path) -> None:
    wheel, sdist = sorted(built.iterdir(), key=lambda file: file.suffix, reverse=True)
    assert "PASSED" in call("-m", "twine", "check", "--strict", str(wheel), str(sdist), cwd=built)
    call("-m", "check_wheel_contents", str(wheel), cwd=built)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        pointing = [name for name in names if name.endswith(".py") and b"scripts/fetch" in archive.read(name)]
    assert not pointing, "who has installed the wheel has no scripts/"
    top = {name.partition("/")[0] for name in names}
    assert top == {"anabranch", next(name for name in top if name.endswith(".dist-info"))}
    wanted = ("py.typed", "jars/pinned.txt", "tour/flights.parquet", "tour/template/delays.py", "cli/template/job.py")
    assert not {f"anabranch/{file}" for file in wanted} - {*names}


def test_a_job_runs_from_it_in_an_empty_folder(program: Path, tmp_path: Path) -> None:
    assert used(program, tmp_path, "--version").startswith("anabranch ")
    where = "import anabranch; print(anabranch.__file__)"
    assert str(program.parents[1]) in call("-c", where, cwd=tmp_path, python=str(program.parent / "python"), env={})
    used(program, tmp_path, "init", "shop")
    shop = tmp_path / "shop"
    used(program, shop, "stream", "create", "orders", "--partitions", "1")
    used(program, shop, "stream", "put", "orders", "--key", "customer", text=FLIGHT)
    used(program, shop, "run", "job.py", "--available-now")
    assert '"product":"tea"' in used(program, shop, "stream", "cat", "large-orders")
    assert "scale" in used(program, tmp_path, "--help")
    assert "--step" in used(program, tmp_path, "demo", "--help")
