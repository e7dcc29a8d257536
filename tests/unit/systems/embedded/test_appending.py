"""Records from outside any job, of which a full disk takes only some."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.systems.contract import PartlyWrittenError
from anabranch.systems.embedded import Appender, Log, disk
from tests.unit.systems.embedded.helpers import contents, records


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(tmp_path / "root")
    log.create("s", 2)
    return log


@contextlib.contextmanager
def second_partition_full(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No entry can be added to partition 1."""
    link = os.link

    def refused(source: str, target: str) -> None:
        if "/1/manifest/" in target:
            raise OSError(errno.ENOSPC, "No space left on device")
        link(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "link", refused)
        yield


def test_a_batch_that_was_written_in_part_can_be_followed_by_another(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with Appender(log, "s") as appender:
        with (
            second_partition_full(monkeypatch),
            pytest.raises(PartlyWrittenError, match="only 1 of 2 records could be added") as caught,
        ):
            appender.append(records([b"a", b"b"]))
        assert caught.value.published == 1
        assert appender.append(records([b"c", b"d"])) == 2
    assert [len(contents(log, "s", partition)) for partition in (0, 1)] == [2, 1]


def test_a_producer_whose_only_batch_was_written_in_part_is_closed(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the disk accepts it; and the error that counts the records is the one that is told."""
    with second_partition_full(monkeypatch), pytest.raises(PartlyWrittenError), Appender(log, "s") as still_full:
        still_full.append(records([b"a", b"b"]))
    with Appender(log, "s") as appender, second_partition_full(monkeypatch), pytest.raises(PartlyWrittenError):
        appender.append(records([b"a", b"b"]))
    marks = [(number, mark.closed) for number, tail in log.ends("s").items() for mark in tail.writers.values()]
    assert sorted(marks) == [(0, True), (0, True), (1, True)]


@contextlib.contextmanager
def failing_sync(monkeypatch: pytest.MonkeyPatch, times: int) -> Iterator[None]:
    """The names in the manifest of partition 0 can't be made durable, the first few times."""
    real, left = disk.sync_folder, [times]

    def sync(folder: str) -> None:
        if folder.endswith("/0/manifest") and left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, "Input/output error", folder)
        real(folder)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "sync_folder", sync)
        yield


def test_what_was_added_although_the_disk_failed_is_counted(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    with Appender(log, "s") as appender:
        appender.append(records([b"a", b"b"]))
        with failing_sync(monkeypatch, times=1):
            assert appender.append(records([b"c", b"d"])) == 2
    assert [len(contents(log, "s", partition)) for partition in (0, 1)] == [2, 2]


def test_what_may_have_been_added_is_told(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    appender = Appender(log, "s")
    appender.append(records([b"a", b"b"]))
    with failing_sync(monkeypatch, times=9), pytest.raises(PartlyWrittenError) as caught:
        appender.append(records([b"c", b"d"]))
    assert (caught.value.published, caught.value.unsure) == (0, 1)
    assert f"only 0 of 2 records could be added to s, in {log.root}, and 1 more may" in str(caught.value)
