"""How a system is found by its name in the settings, and that nobody but the settings knows one that isn't shipped."""

from __future__ import annotations

import pickle
import re
import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from anabranch import config
from anabranch.config import Settings
from anabranch.errors import ConfigError
from anabranch.systems import registry
from anabranch.systems.contract import System
from anabranch.systems.systems import Systems
from tests.support.paths import ROOT
from tests.support.systems import LINES, lines


class Unfinished(System):
    """A system that lacks all that it must have."""


NOT_A_SYSTEM = 3


def systems(section: Mapping[str, Any], **more: Any) -> Systems:
    return Systems(Settings.model_validate({"systems": {"mine": section}, **more}))


def test_a_system_of_anybodys_is_named_in_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "anabranch.toml"
    file.write_text(f'[systems]\ndefault = "mine"\n[systems.mine]\nclass = "{LINES}"\nroot = "streams"\n')
    settings = config.load(file)
    found = Systems(settings, "job")
    assert [system.name for system in found.used] == ["mine"]
    assert [system.name for system in found.all] == ["embedded", "kafka", "mine"]
    assert str(found.named("mine")) == str(tmp_path / "streams"), "a relative root starts where all paths do"
    again = pickle.loads(pickle.dumps(found)).named("mine")
    again.create("in", 2)
    assert found.of("in").counts() == {"in": 2}
    assert config.restored(config.dumped(settings)).systems == settings.systems


def test_names_and_roots_may_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in lines(tmp_path / "there").items():
        monkeypatch.setenv(f"ANABRANCH__SYSTEMS__MINE__{name.upper()}", value)
    monkeypatch.setenv("ANABRANCH__SYSTEMS__DEFAULT", "mine")
    assert str(Systems(config.load()).of("in")) == str(tmp_path / "there")


def test_an_unknown_system_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match="no system 'rabbit'; the systems are embedded, kafka, mine"):
        systems({"class": LINES, "root": "x"}).named("rabbit")


@pytest.mark.parametrize(
    ("text", "what", "cure"),
    [
        ('[systems]\ndefault = "kafak"', "'systems.default' has the value 'kafak'", "one of embedded, kafka; or add"),
        ('[systems]\ndefualt = "kafka"', "unknown setting 'systems.defualt'", "did you mean 'default'?"),
        ('[systems.kafak]\nrack = "a"', "unknown setting 'systems.kafak', a system without a class", "mean 'kafka'?"),
        ('[systems.mine]\nclass = "mine"', "unknown setting 'systems.mine'", 'set class = "module:Class"'),
        ('[systems.mine]\nclass = "a:B "', "unknown setting 'systems.mine'", 'set class = "module:Class"'),
        ('[systems.My-Own]\nclass = "a:B"', "'My-Own' can't be the name of a system", "allowed"),
        ('[streams.a]\nsystem = "mine"', "'streams.a.system' has the value 'mine'", "[systems.mine]"),
    ],
)
def test_what_is_wrong_with_a_section(tmp_path: Path, text: str, what: str, cure: str) -> None:
    (tmp_path / "anabranch.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        config.load(tmp_path / "anabranch.toml")
    assert what in caught.value.what
    assert cure in caught.value.cure


@pytest.mark.parametrize(
    ("section", "what"),
    [
        ({"class": "no_such_module:System"}, "can't be imported: No module named 'no_such_module'"),
        ({"class": "tests.support.systems:Nothing"}, "can't be imported: module .* has no attribute 'Nothing'"),
        ({"class": "tests.unit.systems.test_systems:NOT_A_SYSTEM"}, "it doesn't inherit from it"),
        ({"class": "tests.unit.systems.test_systems:Unfinished"}, "it lacks appender, controls, counts, create"),
        ({"class": LINES}, r"\[systems.mine\] has no root"),
    ],
)
def test_what_is_wrong_with_a_class(section: Mapping[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        systems(section).named("mine")


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("import no_such_dependency", "No module named 'no_such_dependency'"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("import sys\nsys.exit(3)", r"SystemExit: 3 at breaks_off\.py:2"),
        (
            "try:\n    open('/no/licence')\nexcept OSError as e:\n    raise RuntimeError('no\\nlicence') from e",
            r"RuntimeError: no \| licence at breaks_off\.py:4; caused by FileNotFoundError: .*: '/no/licence'\n",
        ),
    ],
)
def test_a_module_that_breaks_off_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, what: str
) -> None:
    (tmp_path / "breaks_off.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match=f"can't be imported: {what}"):
        systems({"class": "breaks_off:System"}).named("mine")
    table = Settings.model_validate({"outputs": {"out": {"to": "breaks_off:Table"}}})
    with pytest.raises(ConfigError, match=f"can't be imported: {what}"):
        Systems(table).table("out")


def test_a_stream_has_only_settings_that_its_system_has_a_meaning_for() -> None:
    bound = {"streams": {"in": {"system": "mine", "delivery": "at-least-once"}}}
    with pytest.raises(ConfigError, match=r"streams\.in\.delivery has no meaning in the system mine"):
        systems({"class": LINES, "root": "x"}, **bound).named("mine")


@pytest.mark.parametrize(
    ("used", "read", "refused"),
    [
        ({"flights": "kafka", "raw": "kafka"}, {"flights", "raw"}, True),
        ({"flights": "kafka", "raw": "kafka"}, {"raw"}, True),
        ({"flights": "kafka"}, {"flights"}, True),
        ({"flights": "kafka"}, set(), False),
        ({"flights": "embedded", "raw": "kafka"}, {"flights", "raw"}, False),
        ({"raw": "kafka", "other": "kafka"}, {"raw", "other"}, False),
    ],
)
def test_a_topic_has_one_stream_in_a_job(used: Mapping[str, str], read: set[str], refused: bool) -> None:
    found = Systems(Settings.model_validate({"streams": {"raw": {"system": "kafka", "topic": "flights"}}}))
    expected = pytest.raises(ConfigError, match="the topic 'flights' under its own name") if refused else nullcontext()
    with expected:
        found.check_topics(used, read)


def test_a_secret_of_a_system_is_not_kept() -> None:
    settings = Settings.model_validate({"systems": {"mine": {"class": LINES, "root": "x", "password": "s3cret"}}})
    with pytest.raises(ConfigError, match=r"systems\.mine\.password contains a secret in plain text"):
        config.dumped(settings)


def test_a_process_is_in_one_rack_for_all_systems_that_know_of_racks() -> None:
    section = {"class": LINES, "root": "x"}
    settings = Settings.model_validate({"systems": {"mine": {**section, "rack": "a"}, "other": section}}).systems
    assert (Settings().systems.rack, settings.rack) == (None, "a")
    moved = settings.with_rack("b")
    assert (moved.rack, moved.kafka.rack, moved.others["mine"].options["rack"]) == ("b", "b", "b")
    assert "rack" not in moved.others["other"].options


def test_the_rack_is_known_once_its_reference_is_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"systems": {"kafka": {"rack": "${env:ZONE}"}}}).systems
    with pytest.raises(ConfigError, match=r"systems\.kafka\.rack.*ZONE"):
        settings.rack  # noqa: B018
    monkeypatch.setenv("ZONE", "eu-1a")
    assert settings.rack == "eu-1a"
    monkeypatch.setenv("ZONE", "")
    assert settings.rack is None, "an empty rack is none"


def test_what_is_shipped_can_be_opened() -> None:
    for name in registry.SHIPPED:
        assert System in registry.class_of(name, Settings()).__mro__
    assert any("bootstrap_servers" in cure for _, cure in registry.error_cures())


def test_nobody_but_the_settings_knows_the_system_of_the_tests() -> None:
    """Its folder is all that a third system takes: no other file names it, but the one that has its section."""
    named = subprocess.run(
        ["git", "grep", "-liE", "json_?lines_?system", "--", "src", "tests", "pyproject.toml", "scripts"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    outside = {file for file in named if not file.startswith("tests/support/json_lines_system/")}
    assert outside - {"tests/unit/systems/test_systems.py"} == {"tests/support/systems.py"}


_BY_NAME = re.compile(r"""(?:[=!]=|\bin) (?:"(?:kafka|embedded)"|\{"(?:kafka|embedded)")|isinstance\(.*System\)""")
_ALLOWED = {"testing/session.py"}
"""Where a user's tests run is a choice of theirs between these two."""


def test_nothing_outside_asks_which_system_it_has() -> None:
    source = ROOT / "src" / "anabranch"
    found = {
        str(file.relative_to(source)): line.strip()
        for file in sorted(source.rglob("*.py"))
        if "systems" not in file.relative_to(source).parts[:1]
        for line in file.read_text().splitlines()
        if _BY_NAME.search(line)
    }
    assert {file: line for file, line in found.items() if file not in _ALLOWED} == {}
