"""What a job file imports from ``anabranch``: all of it is there, and imported only when it is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import anabranch


@pytest.mark.parametrize("name", anabranch.__all__)
def test_each_name_is_there(name: str) -> None:
    assert getattr(anabranch, name).__name__ == name
    assert name in dir(anabranch)


def test_what_is_not_there_is_said_as_python_says_it() -> None:
    with pytest.raises(AttributeError, match=r"module 'anabranch' has no attribute 'Jobs'"):
        _ = anabranch.Jobs
    with pytest.raises(ImportError, match="cannot import name 'Jobs'"):
        from anabranch import Jobs  # type: ignore[attr-defined] # noqa: F401


def test_the_package_alone_imports_nothing() -> None:
    code = "import sys, anabranch\nprint([name for name in sys.modules if name.startswith('anabranch.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
