"""The commands in the pages of the examples, called in a copy of the example's folder, print what the page says."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.harness import ANABRANCH
from tests.support import jvm
from tests.support.paths import ROOT

pytestmark = pytest.mark.acceptance

BLOCKS = re.compile(r"```sh\n(?P<commands>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)
PAGES = [page for page in sorted((ROOT / "docs/how-to/examples").glob("*.md")) if BLOCKS.search(page.read_text())]


def test_some_pages_have_commands() -> None:
    assert PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
@pytest.mark.long
def test_the_commands_of_a_page(page: Path, tmp_path: Path) -> None:
    folder = tmp_path / "example"
    shutil.copytree(ROOT / "examples" / page.stem.replace("-", "_"), folder)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("ANABRANCH", "PYTEST"))}
    env = {**outside, "SPARK_SUBMIT_OPTS": jvm.START, "PATH": f"{ANABRANCH.parent}{os.pathsep}{os.environ['PATH']}"}
    for block in BLOCKS.finditer(page.read_text()):
        words = ["bash", "-euo", "pipefail", "-c", block["commands"]]
        done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, timeout=400, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.endswith(block["output"])
