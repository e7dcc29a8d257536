"""What is said about damaged files of a stream, also if the path of the log has spaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from anabranch.systems.embedded import Log, layout, partition, start, verify


@pytest.fixture(params=["streams", "my old streams"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The root of a log with a stream that a job reads."""
    root = tmp_path / request.param
    log = Log(root)
    log.create("s", 1)
    log.readers("s").hold_all("delays")
    return str(root)


FILES: dict[str, Callable[[str], str]] = {
    "the stream": lambda root: layout.info_path(root, "s"),
    "a reader": lambda root: f"{layout.readers_folder(root, 's')}/delays.json",
    "an entry": lambda root: partition.path_of(layout.manifest_folder(root, "s", 0), 0),
    "the start": lambda root: layout.start_path(root, "s", 0),
}
CONTENTS = {
    "{": "is damaged: ",
    '{"version": 99}': f"has format version 99; this anabranch knows {layout.FORMAT_VERSION}",
}


def test_nothing_is_said_about_an_intact_stream(root: str) -> None:
    assert verify.faults(Log(root), "s") == []


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("file", FILES)
def test_a_damaged_file_is_named_and_then_its_fault(root: str, file: str, content: str) -> None:
    path = FILES[file](root)
    Path(path).write_text(content)
    (found,) = verify.faults(Log(root), "s")
    assert found.path == path
    assert found.problem.startswith(CONTENTS[content])


def test_an_intact_start_is_no_fault(root: str) -> None:
    start.write(layout.start_path(root, "s", 0), start.Start())
    assert verify.faults(Log(root), "s") == []
