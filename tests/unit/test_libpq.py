"""What servers say that refuse a connection: each of several is heard."""

from __future__ import annotations

import psycopg
import pytest

from anabranch import libpq

FULL = "FATAL:  sorry, too many clients already"
STANDBY = "session is read-only"
FAILED = """{last}
Multiple connection attempts failed. All failures were:
- host: 'db1', port: '5432', hostaddr: '::1': connection to server at "::1" failed: {one}
- host: 'db2', port: None, hostaddr: None: connection to server at "db2" failed: {two}"""


@pytest.mark.parametrize(("one", "two"), [(FULL, STANDBY), (STANDBY, FULL), (f"{FULL}\nas it says", STANDBY)])
def test_of_several_servers_each_is_heard_and_those_that_can_only_be_read_apart(one: str, two: str) -> None:
    refused, read_only = libpq.refusals(psycopg.OperationalError(FAILED.format(last=two, one=one, two=two)))
    assert [line.partition("failed: ")[2] for line in refused] == [FULL]
    assert [line.partition("failed: ")[2] for line in read_only] == [STANDBY]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"{FULL}\nmore", ([FULL], [])),
        (STANDBY, ([], [STANDBY])),
        ("", (["OperationalError"], [])),
    ],
)
def test_what_one_server_says(text: str, found: tuple[list[str], list[str]]) -> None:
    assert libpq.refusals(psycopg.OperationalError(text)) == found
