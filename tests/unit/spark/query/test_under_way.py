"""How far a batch is, and when readers could see what it wrote."""

from __future__ import annotations

import pytest

from anabranch.spark.query import under_way
from anabranch.spark.query.under_way import COMMITTING, PUBLISHING, CurrentBatch


def test_it_is_known_when_each_recent_batch_was_published(monkeypatch: pytest.MonkeyPatch) -> None:
    current = CurrentBatch()
    for number in range(100):
        monkeypatch.setattr(under_way, "time", lambda at=1000.0 + number: at)
        current.begin(number, "run")
        current.reach(PUBLISHING)
        assert current.published(number) is None
        if number != 98:
            current.reach(COMMITTING)
        else:
            current.end()
    assert [current.published(number) for number in (99, 98, 97, 70)] == [1099.0, None, 1097.0, 1070.0]
    assert current.published(3) is None, "too long ago"
