"""A coordinator that speaks TLS, and who may ask it, with certificates that are made here."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from anabranch.cli import connect
from anabranch.config import CoordinatorSettings, Settings
from anabranch.coordinator.api import listening, tls
from anabranch.coordinator.api import server as server_api
from anabranch.coordinator.api.client import Client
from anabranch.coordinator.coordinator import Coordinator
from anabranch.coordinator.store import Store
from anabranch.errors import AnabranchError, ConfigError, UnreachableError, UsageError
from tests.support.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextmanager
def serving(trust: ssl.SSLContext, port: int = 0) -> Iterator[listening.Server]:
    routes = server_api.app(Coordinator(Store("sqlite://")), token="secret")
    server = listening.Server(routes, listening.listen(port=port), trust)
    try:
        yield server
    finally:
        server.close()


def asked(url: str, **settings: Path | None) -> None:
    """Ask as verbs and containers do, by their settings."""
    own = CoordinatorSettings(url=url, token="secret", **settings)  # type: ignore[arg-type]
    with connect.at(Settings(coordinator=own), url) as client:
        assert client.jobs() == []


def test_a_coordinator_shows_a_certificate_of_an_authority_that_is_known(authority: Authority) -> None:
    with serving(tls.of_server(*authority.signed("coordinator"))) as server:
        assert server.url == f"https://127.0.0.1:{server.port}"
        asked(server.url, ca=authority.pem)
        asked(f"https://localhost:{server.port}", ca=authority.pem)
        with pytest.raises(UsageError, match=r"rejects the other's certificate: unable to get local issuer"):
            asked(server.url)
        with pytest.raises(UnreachableError):
            asked(f"http://127.0.0.1:{server.port}")


def test_without_an_authority_of_its_own_those_count_that_the_machine_trusts(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A company's own authority is among the machine's, and in no list that a library brings along."""
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.pem))
    with serving(tls.of_server(*authority.signed("coordinator"))) as server:
        asked(server.url)


def test_a_certificate_of_another_authority_name_or_time_is_refused(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    for signed, why in [
        (other.signed("foreign"), "other's certificate"),
        (authority.signed("elsewhere", host="elsewhere.example"), "IP address mismatch"),
        (authority.signed("late", days=-1), "certificate has expired"),
    ]:
        with serving(tls.of_server(*signed)) as server, pytest.raises(UsageError, match=why):
            asked(server.url, ca=authority.pem)


def test_who_asks_shows_a_certificate_where_it_is_wanted(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    certificate, key = authority.signed("container")
    foreign, foreign_key = other.signed("stranger")
    with serving(tls.of_server(*authority.signed("coordinator"), client_ca=authority.pem)) as server:
        asked(server.url, ca=authority.pem, client_certificate=certificate, client_key=key)
        for more in ({}, {"client_certificate": foreign, "client_key": foreign_key}):
            with pytest.raises(AnabranchError, match=f"can't connect to {server.url}: the client or|broke off"):
                asked(server.url, ca=authority.pem, **more)


def test_a_client_shows_its_renewed_certificate(authority: Authority) -> None:
    trust = tls.of_client(authority.pem, *authority.signed("container", days=-1))
    with (
        serving(tls.of_server(*authority.signed("coordinator"), client_ca=authority.pem)) as server,
        Client(server.url, token="secret", trust=trust) as client,
    ):
        with pytest.raises(AnabranchError):
            client.jobs()
        authority.signed("container")
        assert client.jobs() == []


def test_a_coordinator_shows_its_renewed_certificate(authority: Authority) -> None:
    with serving(tls.of_server(*authority.signed("coordinator", days=-1))) as server:
        with pytest.raises(UsageError, match="certificate has expired"):
            asked(server.url, ca=authority.pem)
        authority.signed("coordinator")
        asked(server.url, ca=authority.pem)


def test_a_certificate_that_expires_while_a_client_runs_is_waited_for(authority: Authority) -> None:
    own = tls.of_server(*authority.signed("coordinator"), client_ca=authority.pem)
    trust = tls.of_client(authority.pem, *authority.signed("container"))
    with serving(own) as server:
        url, port = server.url, server.port
        client = Client(url, token="secret", trust=trust)
        assert client.jobs() == []
    with client:
        for name in ("container", "coordinator"):
            authority.signed(name, days=-1)
            with serving(own, port):  # a new server, so there is another handshake
                with pytest.raises(UnreachableError, match=r"certificate|broke off"):
                    client.jobs()
                authority.signed(name)
                assert client.jobs() == []


def test_an_authority_that_replaces_another_is_the_only_one_that_counts(authority: Authority, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other")
    accepted = tmp_path / "accepted.pem"
    accepted.write_bytes(authority.pem.read_bytes())
    first, second = (each.signed(f"of-{n}") for n, each in enumerate((authority, other)))
    trust = tls.of_client(accepted, *first)
    with serving(tls.of_server(*authority.signed("coordinator"), client_ca=accepted)) as server:
        with Client(server.url, token="secret", trust=trust) as client:
            assert client.jobs() == []
        accepted.write_bytes(other.pem.read_bytes())
        with Client(server.url, token="secret", trust=trust) as client, pytest.raises(UsageError, match="local issuer"):
            client.jobs()
        with pytest.raises(AnabranchError):
            asked(server.url, ca=authority.pem, client_certificate=first[0], client_key=first[1])
        asked(server.url, ca=authority.pem, client_certificate=second[0], client_key=second[1])


def test_the_last_pair_stays_until_the_next_one_is_complete(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.signed("coordinator")
    following = [path.read_bytes() for path in Authority(tmp_path, "other").signed("following")]
    with serving(tls.of_server(certificate, key)) as server:
        with capture_logs() as lines:
            for content in (following[0][:100], following[0]):
                certificate.write_bytes(content)
                asked(server.url, ca=authority.pem)
                asked(server.url, ca=authority.pem)
            certificate.unlink()
            asked(server.url, ca=authority.pem)
        assert [line["log_level"] for line in lines] == ["warning"] * 3
        assert "KEY_VALUES_MISMATCH" in lines[1]["error"]
        certificate.write_bytes(following[0])
        key.write_bytes(following[1])
        with pytest.raises(UsageError, match="local issuer"):
            asked(server.url, ca=authority.pem)
        asked(server.url, ca=tmp_path / "other.pem")


def test_files_that_cannot_be_used_are_told_again_once_they_were_back(authority: Authority) -> None:
    certificate, key = authority.signed("coordinator")
    with serving(tls.of_server(certificate, key)) as server, capture_logs() as lines:
        for _ in range(2):
            aside = certificate.rename(certificate.with_suffix(".aside"))
            for _ in range(2):
                asked(server.url, ca=authority.pem)
            aside.rename(certificate)
            asked(server.url, ca=authority.pem)
    assert [line["log_level"] for line in lines] == ["warning"] * 2


def test_old_versions_of_tls_are_refused(authority: Authority) -> None:
    with serving(tls.of_server(*authority.signed("coordinator"))) as server:
        old = ssl.create_default_context(cafile=authority.pem)
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", server.port), 60) as plain, pytest.raises(ssl.SSLError):
            old.wrap_socket(plain, server_hostname="localhost")


@contextmanager
def shaking_hands(trust: ssl.SSLContext) -> Iterator[str]:
    """A server that only shakes hands, once; its URL."""

    def shake() -> None:
        with listener.accept()[0] as plain, suppress(ssl.SSLError):
            trust.wrap_socket(plain, server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=shake, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        thread.join(10)


def test_an_alert_that_is_not_about_a_certificate_is_told_as_it_is(authority: Authority) -> None:
    newest = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    newest.load_cert_chain(*authority.signed("coordinator"))
    newest.minimum_version = ssl.TLSVersion.TLSv1_3
    older = ssl.create_default_context(cafile=authority.pem)
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    with (
        shaking_hands(newest) as url,
        Client(url, token="secret", trust=older) as client,
        pytest.raises(UsageError, match=r"refuses the TLS connection: \w*ALERT_PROTOCOL_VERSION"),
    ):
        client.jobs()


def test_a_file_that_is_none_is_named(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.signed("coordinator")
    _, another = authority.signed("another")
    empty, missing = tmp_path / "empty.pem", tmp_path / "missing.pem"
    empty.touch()
    for certificate_, key_, ca, said in [
        (missing, key, None, f"certificate: {missing} can't be read: No such file or directory"),
        (certificate, missing, None, f"key: {missing} can't be read"),
        (empty, key, None, f"{empty} with {key} isn't a certificate with its key"),
        (certificate, another, None, "isn't a certificate with its key: KEY_VALUES_MISMATCH"),
        (certificate, key, empty, f"client_ca: {empty} holds no certificates"),
    ]:
        with pytest.raises(ConfigError) as raised:
            tls.of_server(certificate_, key_, ca)
        assert said in str(raised.value)
    for settings, said in [({"ca": missing}, "ca: "), ({"client_certificate": missing}, "client_certificate: ")]:
        with pytest.raises(ConfigError, match=said):
            asked("https://127.0.0.1:1", **settings)


def test_a_certificate_may_be_in_one_file_with_its_key(authority: Authority, tmp_path: Path) -> None:
    certificate, key = authority.signed("coordinator")
    whole = tmp_path / "whole.pem"
    whole.write_bytes(certificate.read_bytes() + key.read_bytes())
    trust = tls.of_client(authority.pem)
    with serving(tls.of_server(whole)) as server, Client(server.url, token="secret", trust=trust) as client:
        assert client.jobs() == []
