"""The examples do what their tests say, each with its own data."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tests.integration.harness import Site
from tests.support.paths import ROOT

TESTS = sorted((ROOT / "examples").glob("*/test_job.py"))


@pytest.mark.parametrize("file", TESTS, ids=lambda file: file.parent.name)
@pytest.mark.suite(cases=1)
def test_an_example(file: Path, site: Site) -> None:
    tests = [value for name, value in runpy.run_path(str(file)).items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()
