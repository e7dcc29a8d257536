"""Hosts and ports: a port that doesn't exist is refused where it is written, as a resolver would take another."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import config
from anabranch.config import KafkaSettings
from anabranch.config.addresses import check_link, check_urls, host_and_port
from anabranch.coordinator.store import address
from anabranch.errors import ConfigError
from anabranch.spark.session import cluster
from anabranch.systems.kafka import clients

NO_PORTS = [0, 65_536, 99_999, 10**12]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("head:7077", ("head", 7077)),
        ("127.0.0.1:1", ("127.0.0.1", 1)),
        ("[::1]:65535", ("::1", 65_535)),
        ("a.b-c.example:0080", ("a.b-c.example", 80)),
    ],
)
def test_read(text: str, place: tuple[str, int]) -> None:
    assert host_and_port(text) == place


@pytest.mark.parametrize(
    "text", ["", "head", ":7077", "head:", "head:x", "head:-1", "::1:80", "a b:1", "h:１", "u@h:1"]
)
def test_not_a_place(text: str) -> None:
    with pytest.raises(ValueError, match="isn't of the form HOST:PORT"):
        host_and_port(text)


@given(st.integers(-(10**6), 10**6))
def test_only_ports_that_exist(port: int) -> None:
    try:
        assert host_and_port(f"h:{port}") == ("h", port)
    except ValueError:
        assert not 1 <= port <= 65_535
    else:
        assert 1 <= port <= 65_535


@pytest.mark.parametrize("port", NO_PORTS)
def test_every_setting_refuses_a_port_that_does_not_exist(port: int, tmp_path: Path) -> None:
    said = f"port {port}: ports are from 1 to 65535|[Pp]ort out of range"
    file = tmp_path / "anabranch.toml"
    file.write_text(f'[coordinator]\nurl = "http://a:80, http://b:{port}"\n')
    with pytest.raises(ConfigError, match=said) as caught:
        config.load(file)
    assert str(file) in str(caught.value)
    with pytest.raises(ConfigError, match=said):
        cluster.check_master(f"spark://127.0.0.1:{port}")
    with pytest.raises(ConfigError, match=said):
        address.shown(f"postgresql://me:secret-word@h:{port}/d")
    with pytest.raises(ConfigError, match=said):
        clients.librdkafka(KafkaSettings(bootstrap_servers=f"a:1,b:{port}"))


@pytest.mark.parametrize("servers", ["a:9092", "a:9092,b:9093", "SSL://a:9092, b:1", "[::1]:9092"])
def test_servers_as_kafka_takes_them(servers: str) -> None:
    assert clients.librdkafka(KafkaSettings(bootstrap_servers=servers))["bootstrap.servers"] == servers


def test_urls_as_they_are() -> None:
    for url in ("http://a", "https://a:443/", "http://127.0.0.1:8480, http://[::1]:8481"):
        assert check_urls(url) == url


@pytest.mark.parametrize(
    "text", ["https://logs.example/?q={host}+{pid}", "http://{host}:4040", "https://a/{rack}{seat}"]
)
def test_a_link_is_of_the_web_with_what_is_known_of_a_container(text: str) -> None:
    assert check_link(text) == text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("javascript:alert({pid})", "isn't of the form https://HOST/PATH"),
        ("/relative/{host}", "isn't of the form https://HOST/PATH"),
        ("https://", "isn't of the form https://HOST/PATH"),
        ("https://logs.example/{hosts}", r"has {hosts} in it; there is {job}, {container}"),
        ("https://logs.example/{host", r"isn't closed"),
    ],
)
def test_a_link_that_would_lead_nowhere_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        check_link(text)


def test_links_are_settings(tmp_path: Path) -> None:
    file = tmp_path / "anabranch.toml"
    file.write_text('[coordinator.links]\nlog = "https://logs.example/{host}"\n')
    assert config.load(file).coordinator.links == {"log": "https://logs.example/{host}"}
    file.write_text('[coordinator.links]\nlog = "javascript:alert(1)"\n')
    with pytest.raises(ConfigError, match=r"links\.log"):
        config.load(file)
