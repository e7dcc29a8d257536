"""A few requests of each operation, by others' hands, in each role; 100,000 of them are in soak."""

from __future__ import annotations

import pytest

from tests.soak.api_requests import sent


@pytest.mark.long
def test_no_request_breaks_it_or_gets_further_than_its_role() -> None:
    statuses = {one.role: one.statuses for one in sent(each=2)}
    assert all(counts.total() > 60 for counts in statuses.values())
    assert statuses["nobody"][401] > statuses["nobody"].total() * 0.8
    assert statuses["read"][403] > 20
    assert statuses["read"][200] > 5
    assert not statuses["operate"][401] + statuses["operate"][403]
