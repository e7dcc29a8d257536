"""A job on brokers that want a login and speak in secret: its source, both its outputs, and its markers."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch import Job
from anabranch.config import KafkaSettings, StreamSettings
from anabranch.systems.kafka import jars
from anabranch.testing import broker
from tests.integration.harness import KafkaSite
from tests.support import kafka_peers

PASSWORD = 'p "ä\\ss'


@pytest.mark.long
def test_a_job_on_brokers_with_scram_and_tls(spark: SparkSession, tmp_path: Path) -> None:
    folder = jars.broker_folder()
    assert folder is not None
    tls = kafka_peers.certified(tmp_path)
    secret = tmp_path / "secret"
    secret.write_text(PASSWORD)
    with broker.start(tmp_path / "brokers", folder, sasl={"ann": PASSWORD}, tls=tls) as cluster:
        settings = KafkaSettings(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SASL_SSL",
            sasl_mechanism=broker.SCRAM,
            sasl_username="ann",
            sasl_password=f"${{file:{secret}}}",
            ssl_ca=tls.ca,
        )
        site = KafkaSite(spark, tmp_path, settings)
        source = site.create("in", 2)
        for partition in (0, 1):
            site.put(source, partition, [{"n": n} for n in range(partition, 20, 2)], [b"k"] * 10)
        job = Job(f"{site.name}-guarded")
        read = job.read(source, schema="n int")
        read.where("n < 10").write(f"{site.name}-once")
        read.where("n >= 10").write(f"{site.name}-plain")
        plain = StreamSettings(delivery="at-least-once")
        given = site.settings().model_copy(update={"streams": {f"{site.name}-plain": plain}})
        site.deployed(job, given).ran()
        assert sorted(value["n"] for value in site.values(f"{site.name}-once")) == list(range(10))
        assert sorted(value["n"] for value in site.values(f"{site.name}-plain")) == list(range(10, 20))
