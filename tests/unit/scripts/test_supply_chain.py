"""The lock has all that pyproject.toml asks for, the page all licences, and the SBOM all that a wheel requires."""

from __future__ import annotations

import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from scripts import supply_chain

from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REQUIRED = [*PROJECT["dependencies"], *(each for extra in PROJECT["optional-dependencies"].values() for each in extra)]
LOCK = """\
absl-py==2.5.1 \\
    --hash=sha256:{a} \\
    --hash=sha256:{b}
    # via ortools
numpy==2.4.0 ; python_full_version < '3.12' \\
    --hash=sha256:{b}
"""


def test_a_lock_is_read() -> None:
    a, b = "a" * 64, "b" * 64
    assert supply_chain.locked(LOCK.format(a=a, b=b)) == [
        supply_chain.Pin("absl-py", "2.5.1", "", (a, b)),
        supply_chain.Pin("numpy", "2.4.0", "python_full_version < '3.12'", (b,)),
    ]


@pytest.mark.parametrize("text", sorted(set(REQUIRED)))
def test_each_requirement_is_satisfied_by_the_lock(text: str) -> None:
    requirement = Requirement(text)
    pins = [
        pin
        for pin in supply_chain.locked(supply_chain.LOCK.read_text())
        if pin.name == canonicalize_name(requirement.name)
    ]
    assert pins, f"{requirement.name} isn't locked: scripts/lock"
    assert [pin.version for pin in pins if not requirement.specifier.contains(Version(pin.version))] == []


def test_each_pin_has_sums() -> None:
    text = supply_chain.LOCK.read_text()
    pins = supply_chain.locked(text)
    assert len(pins) == sum("==" in line and not line.startswith((" ", "#")) for line in text.splitlines())
    assert [pin.name for pin in pins if not pin.sums] == []
    assert "://" not in text


def test_the_page_has_the_licences_of_all_that_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert supply_chain.main(["licences", "--check"]) == 0, capsys.readouterr().err


def test_what_is_not_installed_as_it_is_locked_is_not_compared() -> None:
    """CI installs the newest versions, and one of them may call its licence otherwise from one day to the next."""
    page = "| package | licence | for |\n| --- | --- | --- |\n| babel | BSD License | all |\n| xxhash | BSD | all |\n"
    newer = page.replace("BSD License", "BSD-3-Clause") + "| newcomer | MIT | all |\n"
    assert supply_chain.differences(page, newer, {"xxhash"}) == []
    assert supply_chain.differences(page, newer, {"babel", "newcomer", "xxhash"}) == ["babel", "newcomer"]
    assert supply_chain.differences(newer, page, {"newcomer"}) == ["newcomer"]


def test_what_is_locked_in_several_versions_is_not_compared() -> None:
    """Its licence may be called otherwise in each of them, and the page was written with one version of Python."""
    pins = [
        supply_chain.Pin("deprecated", "1.3.1", "python_full_version < '3.12'", ()),
        supply_chain.Pin("deprecated", "3.0.1", "python_full_version >= '3.12'", ()),
        supply_chain.Pin("babel", "2.18", "", ()),
        supply_chain.Pin("xxhash", "3.6", "", ()),
        supply_chain.Pin("newcomer", "1.0", "", ()),
    ]
    installed = {"deprecated": "3.0.1", "babel": "2.19", "xxhash": "3.6"}
    assert supply_chain.as_locked(pins, installed.get) == {"xxhash"}


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ({"License-Expression": "MIT", "License": "something"}, "MIT"),
        ({"License": "BSD-3-Clause"}, "BSD-3-Clause"),
        ({"License": "All of\nthe text"}, ""),
        ({}, ""),
    ],
)
def test_a_licence_is_what_the_metadata_say(metadata: dict[str, str], licence: str) -> None:
    assert supply_chain.licence(metadata) == licence


def test_an_sbom_has_what_a_wheel_requires_with_the_versions_of_the_lock(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        required = ["httpx", 'duckdb ; extra == "dev"']
        lines = ["Metadata-Version: 2.4", "Name: x", "Version: 1", "License-Expression: Apache-2.0"]
        lines += [f"Requires-Dist: {each}" for each in required]
        archive.writestr("x-1.dist-info/METADATA", "\n".join(lines))
    made = supply_chain.sbom(wheel, supply_chain.locked(supply_chain.LOCK.read_text()))
    pins = {pin.name: pin.version for pin in supply_chain.locked(supply_chain.LOCK.read_text())}
    assert (made["bomFormat"], made["metadata"]["component"]["purl"]) == ("CycloneDX", "pkg:pypi/x@1")
    names = {each["name"]: each["version"] for each in made["components"]}
    assert {"httpx", "httpcore", "anyio"} <= set(names)
    assert "duckdb" not in names
    assert names == {name: pins[name] for name in names}
    by_ref = {each["ref"]: each["dependsOn"] for each in made["dependencies"]}
    assert by_ref["pkg:pypi/x@1"] == [f"pkg:pypi/httpx@{pins['httpx']}"]
    assert set(by_ref) == {"pkg:pypi/x@1", *(each["bom-ref"] for each in made["components"])}
