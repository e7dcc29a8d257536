"""The tutorials do what they say, followed to the letter in an empty folder."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from anabranch.testing.broker import Cluster
from tests.acceptance.harness import ANABRANCH
from tests.support import jvm
from tests.support.paths import ROOT
from tests.support.tutorial import Block, blocks, differs, follow

pytestmark = pytest.mark.acceptance

TUTORIALS = ROOT / "docs" / "tutorials"


def environment() -> dict[str, str]:
    """That of a person who has the environment of these tests on PATH, and nothing of these tests."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("ANABRANCH", "PYTEST"))}
    path = f"{ANABRANCH.parent}{os.pathsep}{os.environ['PATH']}"
    return {**outside, "SPARK_SUBMIT_OPTS": jvm.START, "PATH": path}


@pytest.mark.long
def test_first_job(tmp_path: Path) -> None:
    assert follow(TUTORIALS / "first-job.md", tmp_path, environment()) >= 10


@pytest.mark.long
def test_the_example_of_event_time(tmp_path: Path) -> None:
    assert follow(ROOT / "docs" / "explanation" / "event-time.md", tmp_path, environment()) >= 3


@pytest.mark.long
def test_from_the_embedded_log_to_kafka(tmp_path: Path, cluster: Cluster) -> None:
    page = TUTORIALS / "from-the-embedded-log-to-kafka.md"
    assert follow(page, tmp_path, environment(), {"localhost:9092": cluster.bootstrap_servers}) >= 7


@pytest.mark.long
def test_drain_and_deploy(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    page = TUTORIALS / "drain-and-deploy.md"
    here = {"--launcher local": f"--launcher local --port {port}", ":8480": f":{port}"}
    assert follow(page, tmp_path, environment(), here) >= 9


@pytest.mark.long
def test_scale_a_slow_job(tmp_path: Path) -> None:
    assert follow(TUTORIALS / "scale-a-slow-job.md", tmp_path, environment()) >= 8


def test_blocks_of_a_page() -> None:
    page = (
        'Write:\n\n```python title="job.py"\nx = 1\n```\n\n'
        "```sh\nls\n```\n\n```text\njob.py\n```\n\nThen\n\n```text\nb\n```\n"
    )
    assert blocks(page) == [
        Block("python", "job.py", "x = 1\n", 3),
        Block("sh", "", "ls\n", 7, "job.py\n"),
        Block("text", "", "b\n", 17),
    ]


@pytest.mark.parametrize(
    ("expected", "printed", "differ"),
    [
        ("a\nb\n", "a  \nb\n\n", False),
        ("a\n...\nb", "a\nx\ny\nb", False),
        ("...\nb", "a\nb", False),
        ("...\nb", "b", False),
        ("a\n...", "a", False),
        ("a\n...\nb", "a\nb", False),
        ("took ... s", "took 1.5 s", False),
        ("a", "a\nb", True),
        ("a.b", "axb", True),
    ],
)
def test_what_a_page_shows_is_compared(expected: str, printed: str, differ: bool) -> None:
    assert differs(expected, printed) is differ


def test_a_page_that_is_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```sh\necho tea\n```\n\n```text\ncoffee\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        follow(page, tmp_path, environment())
    page.write_text("```sh\nfalse\n```\n")
    with pytest.raises(AssertionError, match=r"page\.md:1"):
        follow(page, tmp_path, environment())
