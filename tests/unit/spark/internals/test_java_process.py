"""The Java process of a session, as far as PySpark tells of it."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from anabranch.spark.internals import java, java_process
from tests.support.surfaces import lacking


def session(monkeypatch: pytest.MonkeyPatch, **gateway: object) -> Any:
    monkeypatch.setattr(java, "gateway", lambda _: SimpleNamespace(**gateway))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    java_process.SURFACE.forget()
    return SimpleNamespace(sparkContext=object())


def test_a_child_is_seen_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        spark = session(monkeypatch, proc=child)
        assert java_process.SURFACE.works(spark)
        assert (java_process.is_child(spark), java_process.pid(spark)) == (True, child.pid)
        assert not java_process.is_gone(spark, within=0.1)
        java_process.kill(spark)
        assert java_process.is_gone(spark)


def test_where_pyspark_keeps_none_nothing_is_replaced_or_taken_for_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = session(monkeypatch)
    assert java_process.probe(spark).missing == "PySpark doesn't keep the Java process that it starts"
    assert (java_process.is_child(spark), java_process.pid(spark), java_process.is_gone(spark)) == (False, 0, False)
    java_process.kill(spark)
    with lacking(java_process.SURFACE):
        assert not java_process.SURFACE.works(spark)


def test_one_that_has_started_this_process_needs_not_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    spark = session(monkeypatch)
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert java_process.SURFACE.works(spark)
