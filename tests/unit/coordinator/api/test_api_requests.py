"""A few requests of each operation, by others' hands, for each role; 100,000 of them are in soak."""

from __future__ import annotations

import pytest

from tests.soak.api_requests import TOKENS, sent

ROLES = [role if role == "operate" else pytest.param(role, marks=pytest.mark.long) for role in TOKENS]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.long
def test_no_request_breaks_it_or_gets_further_than_its_role(role: str) -> None:
    statuses = sent(role, each=2).statuses
    assert statuses.total() > 60
    if role == "nobody":
        assert statuses[401] > statuses.total() * 0.8
    elif role == "read":
        assert statuses[403] > 20
        assert statuses[200] > 5
    else:
        assert not statuses[401] + statuses[403]
