"""The notebook in examples/, run cell by cell by a kernel of its own."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from ipykernel.kernelspec import install
from nbclient import NotebookClient

from tests.acceptance.harness import ANABRANCH
from tests.support import jvm
from tests.support.paths import ROOT

pytestmark = pytest.mark.acceptance


@pytest.mark.long
def test_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(prefix=str(tmp_path / "jupyter"))  # a kernel of this interpreter
    for name, value in {
        "JUPYTER_PATH": str(tmp_path / "jupyter" / "share" / "jupyter"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "PATH": f"{ANABRANCH.parent}{os.pathsep}{os.environ['PATH']}",
        "SPARK_SUBMIT_OPTS": jvm.START,
        "PYSPARK_PYTHON": sys.executable,
    }.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "work"
    folder.mkdir()
    notebook = nbformat.read(ROOT / "examples" / "preview.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "it is kept without outputs"
    NotebookClient(notebook, timeout=400, resources={"metadata": {"path": str(folder)}}).execute()

    _, put, _, read, large, windows, frame = (cell.outputs for cell in notebook.cells if cell.cell_type == "code")
    assert "orders: 3 records written" in text(put)
    assert text(read).count("customer") == 2
    assert "'amount': 150" in text(large)
    assert "'amount': 30" not in text(large)
    assert "'revenue': 180" in text(windows)
    assert [line.split()[1] for line in text(frame).splitlines()[1:]] == ["coffee", "tea"]
    for outputs in (read, large, windows):
        (bar,) = re.findall(r'<progress value="(\d+)" max="(\d+)"></progress>', html(outputs))
        assert int(bar[0]) == int(bar[1]) > 0


def text(outputs: list[Any]) -> str:
    parts = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return "\n".join(part for part in parts if "HTML object" not in part)


def html(outputs: list[Any]) -> str:
    return "".join(output.get("data", {}).get("text/html", "") for output in outputs)
