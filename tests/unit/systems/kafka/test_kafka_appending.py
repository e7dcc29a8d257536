"""Records for Kafka, of which not all can be written: how many were, and how many more may have been."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException

from anabranch.errors import AnabranchError
from anabranch.systems.contract import PartlyWrittenError
from anabranch.systems.kafka.append import KafkaAppender
from anabranch.systems.records import RECORD_SCHEMA

Report = Callable[[KafkaError | None, Any], None]


class Producer:
    """Confirms, refuses or forgets the records, as ``outcomes`` says for each in turn: None is a confirmation, and
    ``...`` no answer."""

    outcomes: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.unanswered = 0

    def produce(self, topic: str, value: bytes, key: bytes, partition: int, report: Report, **_: Any) -> None:
        if isinstance(outcome := self.outcomes[len(self.reports)], KafkaException):
            raise outcome
        self.reports.append(report)

    def poll(self, seconds: float) -> None:
        return

    def flush(self, seconds: float) -> int:
        for report, outcome in zip(self.reports, self.outcomes, strict=False):
            if outcome is not ...:
                report(outcome, None)
        answered, self.reports = self.reports, []
        self.unanswered += sum(each is ... for each in self.outcomes[: len(answered)])
        return self.unanswered

    def purge(self) -> None:
        return


def made(*_: object) -> tuple[Any, None]:
    return Producer(), None


def appender(limit: int = 1_000_000, opens: Callable[..., tuple[Any, None]] = made) -> KafkaAppender:
    def check(*_: object) -> None:
        raise AnabranchError("the cluster doesn't answer", "start it")

    cluster = SimpleNamespace(open=opens, patience=0.0, check=check, explained=lambda *_: AnabranchError("no", "do"))
    topics = SimpleNamespace(
        cluster=cluster,
        topic=str,
        largest=lambda topics: dict.fromkeys(topics, limit),
        describe=lambda _: SimpleNamespace(partitions={0: None}),
    )
    return KafkaAppender(topics, "s")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("outcomes", "published", "unsure"),
    [
        ((None, None, ..., ...), 2, 2),
        ((None, KafkaError(KafkaError._MSG_TIMED_OUT), None, None), 3, 1),
        ((None, KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None, None), 3, 0),
        ((None, KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))), 1, 0),
    ],
)
def test_an_error_says_how_many_records_were_written(
    monkeypatch: pytest.MonkeyPatch, outcomes: tuple[Any, ...], published: int, unsure: int
) -> None:
    monkeypatch.setattr(Producer, "outcomes", outcomes)
    row = {"key": b"k", "value": b"v", "timestamp": 1, "headers": None}
    with pytest.raises(PartlyWrittenError) as caught:
        appender().append(pa.RecordBatch.from_pylist([row] * 4, RECORD_SCHEMA))
    assert (caught.value.published, caught.value.unsure) == (published, unsure)
    assert f"{published} record{'' if published == 1 else 's'} written" in caught.value.what
    assert (f", and {unsure} more may have been written" in caught.value.what) == bool(unsure)


@pytest.mark.parametrize("limit", [0, 1_048_588, 1_000_000_001, 2**31 - 1])
def test_the_client_accepts_every_limit_that_a_topic_can_have(limit: int) -> None:
    def real(client: Callable[[dict[str, Any]], Any], properties: dict[str, Any]) -> tuple[Any, None]:
        return client({"bootstrap.servers": "127.0.0.1:1", "log_level": 0, **properties}), None

    with appender(limit, real):
        pass
