"""Clients get credentials that have changed in a file, as long as somebody has the client."""

from __future__ import annotations

import gc
import os
import sys
import time
import weakref
from pathlib import Path

import pytest

from anabranch.config import KafkaSettings
from anabranch.systems.kafka import clients, relogin
from anabranch.systems.kafka.relogin import Relogin


class Client:
    def __init__(self) -> None:
        self.given: list[tuple[str, str]] = []

    def set_sasl_credentials(self, user: str, password: str) -> None:
        self.given.append((user, password))


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(relogin, "EVERY", 0.01)
    file = tmp_path / "password"
    file.write_text("first\n")
    return file


def settings(password: str) -> KafkaSettings:
    return KafkaSettings(
        bootstrap_servers="localhost:9092",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_username="ann",
        sasl_password=password,
    )


def followed(secret: Path, client: Client) -> Relogin:
    its = settings(f"${{file:{secret}}}")
    return Relogin(its, client, clients.librdkafka(its))


def until(client: Client, count: int) -> None:
    deadline = time.monotonic() + 10
    while len(client.given) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_client_gets_each_password_once(secret: Path) -> None:
    client = Client()
    kept = followed(secret, client)
    time.sleep(0.1)
    assert client.given == []
    secret.write_text("second\n")
    until(client, 1)
    secret.unlink()
    time.sleep(0.1)
    secret.write_text("third")
    until(client, 2)
    time.sleep(0.1)
    assert client.given == [("ann", "second"), ("ann", "third")]
    del kept


def test_a_client_that_nobody_needs_is_let_go(secret: Path) -> None:
    client = Client()
    gone = weakref.ref(client)
    kept = followed(secret, client)
    time.sleep(0.1)
    del kept, client
    deadline = time.monotonic() + 10
    while gone() is not None:
        gc.collect()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_password_that_no_file_has_is_not_looked_at(secret: Path) -> None:
    client = Client()
    gone = weakref.ref(client)
    kept = Relogin(settings("literal"), client, {"sasl.password": "another"})
    assert client.given == []
    del kept, client
    assert gone() is None


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
def test_a_forked_process_follows_its_own_clients(secret: Path) -> None:
    ours = Client()
    kept = followed(secret, ours)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            mine = Client()
            its = followed(secret, mine)
            secret.write_text("second")
            until(mine, 1)
            code = 0 if ours.given == [] and its is not None else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    until(ours, 1)
    del kept


def test_a_client_that_was_closed_does_not_keep_the_others_from_theirs(secret: Path) -> None:
    class Closed:
        def set_sasl_credentials(self, user: str, password: str) -> None:
            raise RuntimeError("Handle has been closed")

    its, client = settings(f"${{file:{secret}}}"), Client()
    kept = [Relogin(its, Closed(), {}), followed(secret, client), Relogin(its, Closed(), {})]
    secret.write_text("second")
    until(client, 1)
    secret.write_text("third")
    until(client, 2)
    assert len(kept) == 3


def test_properties_of_the_client_take_precedence(secret: Path) -> None:
    its = settings("unused").model_copy(
        update={"client": {"sasl.username": "bob", "sasl.password": f"${{file:{secret}}}"}}
    )
    client = Client()
    kept = Relogin(its, client, clients.librdkafka(its))
    secret.write_text("second")
    until(client, 1)
    assert client.given == [("bob", "second")]
    del kept
