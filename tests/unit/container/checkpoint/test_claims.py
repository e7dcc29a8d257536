"""In which storage a folder can be claimed."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from anabranch.container.checkpoint import claims
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
