"""A Kafka cluster that is down, unknown, refuses a login or goes away is named within bounded time."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import numpy as np
import pytest

from anabranch.config import KafkaSettings
from anabranch.errors import AnabranchError
from anabranch.systems.kafka import jars
from anabranch.systems.kafka.system import KafkaSystem
from anabranch.testing import broker
from tests.broker.kafka_streams import batch, made, put, read, record, settings, system

__all__ = ["settings", "system"]  # fixtures

pytestmark = pytest.mark.integration


def test_a_cluster_that_is_down_is_named_within_bounded_time(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        system = KafkaSystem(KafkaSettings(bootstrap_servers=address), patience=0.5)
        for ask in (
            system.streams,
            lambda: system.create("s", 1),
            lambda: system.appender("s"),
            lambda: read(system, "s", (0, 1)),
        ):
            begun = time.monotonic()
            with pytest.raises(
                AnabranchError, match=f"cluster {address} didn't answer for 0.5 s: .*Connection refused"
            ) as error:
                ask()
            assert time.monotonic() - begun < 2
            assert "bootstrap_servers" in error.value.cure
    assert capfd.readouterr().err == ""


def test_a_name_that_nobody_knows_is_told() -> None:
    system = KafkaSystem(KafkaSettings(bootstrap_servers="no-such-host.invalid:9092"), patience=0.5)
    with pytest.raises(AnabranchError, match=r"didn't answer for 0.5 s: .*resolve"):
        system.streams()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[broker.Cluster, KafkaSettings]]:
    """A cluster that asks for passwords, and the right settings."""
    folder = jars.broker_folder()
    assert folder is not None
    with broker.start(tmp_path_factory.mktemp("guarded"), folder, sasl={"alice": 'p"w\\d'}) as cluster:
        yield (
            cluster,
            KafkaSettings(
                bootstrap_servers=cluster.bootstrap_servers,
                security_protocol="SASL_PLAINTEXT",
                sasl_username="alice",
                sasl_password='p"w\\d',
            ),
        )


@pytest.mark.long
def test_a_login_that_is_refused_is_told_at_once(
    guarded: tuple[broker.Cluster, KafkaSettings], capfd: pytest.CaptureFixture[str]
) -> None:
    cluster, right = guarded
    system = KafkaSystem(right)
    name = made(system)
    put(system, name, b"a")
    assert read(system, name, (0, 1)) == [(0, b"a")]

    wrong = KafkaSystem(right.model_copy(update={"sasl_password": "s3cret"}))
    for ask in (wrong.streams, lambda: wrong.appender(name), lambda: read(wrong, name, (0, 1))):
        begun = time.monotonic()
        with pytest.raises(AnabranchError, match=r"\(SASL_PLAINTEXT, PLAIN, user alice\) refuses the login") as error:
            ask()
        assert time.monotonic() - begun < 5
        assert "s3cret" not in str(error.value)
    without = KafkaSystem(KafkaSettings(bootstrap_servers=cluster.bootstrap_servers), patience=1.0)
    with pytest.raises(AnabranchError, match="security_protocol"):
        without.streams()
    assert capfd.readouterr().err == ""


@pytest.mark.long
def test_a_cluster_that_goes_away_fails_what_is_under_way(
    guarded: tuple[broker.Cluster, KafkaSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, right = guarded
    system = KafkaSystem(right, patience=1.5)
    name = made(system)
    put(system, name, *[b"v" * 1000] * 3000)
    appender = system.appender(name)
    found = system.read(name, 0, [(0, 1), (2999, 3000)])
    next(found)
    cluster.kill()
    begun = time.monotonic()
    with pytest.raises(AnabranchError, match="didn't answer"):
        list(found)
    with pytest.raises(AnabranchError, match="didn't answer"):
        appender.append(batch([record(b"v")]))
    monkeypatch.setattr(appender, "partitions_of", lambda keys: np.zeros(len(keys), np.int32))
    with pytest.raises(AnabranchError, match=r"didn't answer.*; 0 records written"):
        appender.append(batch([record(b"v")]))
    with pytest.raises(AnabranchError, match="didn't answer"):
        system.ends(name)
    assert time.monotonic() - begun < 9
    appender.close()
    cluster.start_again()
    assert KafkaSystem(right).ends(name) == system.ends(name) == {0: 3000}
