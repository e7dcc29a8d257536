"""A new project works as it stands: its test passes, and the commands of its README do what they say."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.harness import ANABRANCH, Workspace
from tests.support import jvm

pytestmark = pytest.mark.acceptance


def shell(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run commands as a person would who has the environment of these tests on PATH."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("ANABRANCH", "PYTEST"))}
    env = {**outside, "SPARK_SUBMIT_OPTS": jvm.START, "PATH": f"{ANABRANCH.parent}{os.pathsep}{os.environ['PATH']}"}
    words = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.mark.long
def test_a_new_project(workspace: Workspace) -> None:
    made = workspace.call("init", "shop")
    project = workspace.folder / "shop"
    assert made.stdout == ""
    assert "next:\n  cd shop\n  pip install pytest\n  pytest\n" in made.stderr
    assert (project / "README.md").read_text().startswith("# shop\n")

    again = workspace.call("init", "shop", code=4)
    assert again.stderr.startswith("error: shop is not empty\n  name a new folder")

    creating, running, looking, testing = re.findall(r"```sh\n(.*?)```", (project / "README.md").read_text(), re.DOTALL)
    shell(project, creating)
    ran = shell(project, running)
    assert "stage 1: key product; stateful" in ran.stdout
    assert "orders: stopped, deployment 1" in ran.stdout
    rows = shell(project, looking).stdout.splitlines()
    assert rows[0] == '{"product":"tea","amount":120,"customer":"bob"}'
    assert sorted(rows[1:]) == [
        '{"product":"coffee","orders":1,"revenue":50}',
        '{"product":"tea","orders":2,"revenue":150}',
    ]
    assert "2 passed" in shell(project, testing).stdout


def test_a_project_is_made_only_where_nothing_is(workspace: Workspace) -> None:
    (workspace.folder / "empty").mkdir()
    workspace.call("init", "empty")
    (workspace.folder / "file").touch()
    refused = workspace.call("init", "file/below", code=1)
    assert "file" in refused.stderr
    assert "can't be written: " in refused.stderr
    assert "file is a file" in workspace.call("init", "file", code=4).stderr
