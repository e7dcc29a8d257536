"""The check of names: which of them it finds, and that a banned word may only become rarer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts import check_names

FILE = "src/anabranch/lanes.py"


def words(source: str, file: str = FILE) -> list[tuple[str, int, str]]:
    return [(use.kind, use.line, use.word) for use in check_names.uses(source, file)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def found(): ...", [("function", 1, "found")]),
        ("async def _told(): ...", [("function", 1, "told")]),
        ("class Held: ...", [("class", 1, "held")]),
        ("class _Ahead: ...", [("class", 1, "ahead")]),
        ("class Lane:\n    beside: int = 0", [("attribute", 2, "beside")]),
        ("class Lane:\n    def what(self): ...", [("function", 2, "what")]),
        ("class Lane:\n    def __init__(self):\n        self.begun = True", [("attribute", 3, "begun")]),
        ("class Lane:\n    its, each = 1, 2\n    whence = 3", [("attribute", 3, "whence")]),
        ("how = 1", [("attribute", 1, "how")]),
    ],
)
def test_defined_names_are_found(source: str, expected: list[tuple[str, int, str]]) -> None:
    assert words(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "def lanes(each):\n    found = each\n    return found",  # parameters and local variables
        "class Lane:\n    _held: int = 0",
        "class Lane:\n    def __init__(self):\n        self._told = 1",
        "class HeldQuery: ...",
        "def found_lanes(): ...",
        "print(error.what)",  # defined elsewhere
        '"""What is found, told and held."""',
    ],
)
def test_other_names_are_not(source: str) -> None:
    assert words(source) == []


@pytest.mark.parametrize("file", ["src/anabranch/spark/held.py", "src/anabranch/held/__init__.py"])
def test_a_module_is_named_by_its_file_or_folder(file: str) -> None:
    assert words("", file) == [("module", 1, "held")]


class Repository:
    """A source tree of one package, with its record of allowed uses."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._record = root / check_names.ALLOWED
        self._record.parent.mkdir()

    def write(self, **modules: str) -> None:
        package = self._root / check_names.PACKAGE
        package.mkdir(parents=True, exist_ok=True)
        for old in package.glob("*.py"):
            old.unlink()
        for name, source in modules.items():
            (package / f"{name}.py").write_text(source)

    def allow(self, **counts: dict[str, int]) -> None:
        files = {
            word: {f"{check_names.PACKAGE}/{name}.py": number for name, number in files.items()}
            for word, files in counts.items()
        }
        self._record.write_text(json.dumps(files))

    @property
    def allowed(self) -> dict[str, int]:
        return {word: sum(files.values()) for word, files in json.loads(self._record.read_text()).items()}

    def check(self, *arguments: str) -> int:
        return check_names.main(arguments, self._root)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_allowed_uses_pass(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write(lanes="def found(): ...", tasks="")
    repository.allow(found={"lanes": 1})
    assert repository.check() == 0
    assert capsys.readouterr().err == ""


def test_a_new_use_fails_and_is_named_with_its_place(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write(lanes="def found(): ...", tasks="import os\n\n\ndef found(): ...")
    repository.allow(found={"lanes": 1})
    assert repository.check() == 1
    use, total = capsys.readouterr().err.splitlines()
    assert use.startswith("src/anabranch/tasks.py:4: function 'found': ")
    assert use.endswith("docs/reference/glossary.md")
    assert total == "'found' is used 2 times; scripts/names.json allows 1"


def test_a_word_that_is_not_recorded_may_not_be_used_at_all(
    repository: Repository, capsys: pytest.CaptureFixture[str]
) -> None:
    repository.write(lanes="class Told: ...")
    repository.allow()
    assert repository.check() == 1
    assert "src/anabranch/lanes.py:1: class 'told'" in capsys.readouterr().err


def test_a_use_may_move_to_another_file(repository: Repository) -> None:
    repository.write(tasks="def found(): ...")
    repository.allow(found={"lanes": 1})
    assert repository.check() == 0


def test_fewer_uses_must_be_recorded(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write(lanes="def found(): ...")
    repository.allow(found={"lanes": 2}, told={"lanes": 1})
    assert repository.check() == 1
    assert "'told' is used 0 times; scripts/names.json still allows 1" in capsys.readouterr().err
    assert repository.check("--lower") == 0
    assert repository.allowed == {"found": 1}
    assert repository.check() == 0


def test_the_record_is_never_raised(repository: Repository, capsys: pytest.CaptureFixture[str]) -> None:
    repository.write(lanes="def found(): ...\ndef told(): ...")
    repository.allow(found={"lanes": 3})
    assert repository.check("--lower") == 1
    assert "function 'told'" in capsys.readouterr().err
    assert repository.allowed == {"found": 3}
