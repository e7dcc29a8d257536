"""Files that anabranch writes are UTF-8, whatever the locale is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

POSIX = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("call", "written"),
    [
        ("from anabranch.cli import traffic; traffic.write(file, 'eu → us')", "eu → us"),
        ("from anabranch.cli import run; run.append_trace(file, '0-1', KeyError('größe'))", "KeyError: 'größe'"),
        ("from anabranch.cli import run; run.append_trace(file, '0-1', OSError('gr\\udcf6ße'))", r"gr\udcf6ße"),
    ],
)
def test_in_the_posix_locale(tmp_path: Path, call: str, written: str) -> None:
    code = f"from pathlib import Path; file = Path('written'); {call}".encode("ascii", "backslashreplace")
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env={**os.environ, **POSIX}, check=True)
    assert written in (tmp_path / "written").read_text(encoding="utf-8")


def test_a_new_project_does_not_depend_on_the_locale(tmp_path: Path) -> None:
    code = """if True:
        import warnings
        from pathlib import Path
        from anabranch.cli import init
        warnings.simplefilter("error", EncodingWarning)
        init.init(Path("project"))
    """
    command = [sys.executable, "-X", "warn_default_encoding", "-c", code]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert "project" in (tmp_path / "project/README.md").read_text(encoding="utf-8")
