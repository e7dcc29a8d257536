"""In which storage a folder can be claimed."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any
from unittest.mock import MagicMock

import pytest

from anabranch.container.checkpoint import claims
from anabranch.container.checkpoint.ownership import Claim
from anabranch.errors import ConfigError


@pytest.mark.parametrize("scheme", ["s3", "s3n", "http"])
def test_a_folder_cannot_be_claimed_where_files_may_not_be_created_exclusively(scheme: str) -> None:
    spark: Any = None
    with pytest.raises(ConfigError, match=rf"root is on '{scheme}'.*\n.*use one of .*s3a"):
        claims.take(spark, f"{scheme}://lanes/root/delays/0-abc/1", lambda: False)


def test_a_storage_that_cannot_be_reached_leaves_no_threads_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise OSError("no such host")

    spark: Any = None
    monkeypatch.setattr("anabranch.container.checkpoint.claims.checkpoint_files.process_id", lambda _: 1)
    monkeypatch.setattr("anabranch.container.checkpoint.claims.Hadoop", fails)
    before = threading.active_count()
    for _ in range(2):
        with pytest.raises(OSError, match="no such host"):
            claims.take(spark, "s3a://lanes/root/delays/0-abc/1", lambda: False)
    assert threading.active_count() == before


@pytest.fixture
def oddly_named() -> Iterator[int]:
    """A process whose name isn't UTF-8."""
    code = r"open('/proc/self/comm', 'wb').write(b'gr\xfc)\xc3'); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_process_may_have_any_name(oddly_named: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def owner(_files: object, _folder: str, me: Claim, *_: object) -> None:
        assert (me.pid, me.started.isdecimal()) == (oddly_named, True)
        raise OSError("no such host")

    spark: Any = None
    monkeypatch.setattr("anabranch.container.checkpoint.claims.checkpoint_files.process_id", lambda _: oddly_named)
    for name, replacement in (("Hadoop", MagicMock()), ("FarFiles", MagicMock()), ("Ownership", owner)):
        monkeypatch.setattr(f"anabranch.container.checkpoint.claims.{name}", replacement)
    with pytest.raises(OSError, match="no such host"):
        claims.take(spark, "s3a://lanes/root/delays/0-abc/1", lambda: False)
