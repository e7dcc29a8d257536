"""Task names: each form as it is written in logs, headers and HTTP, and an exact round trip for any stream."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anabranch.errors import UsageError
from anabranch.model import names
from anabranch.model.factor import FACTORS
from anabranch.model.names import TaskKind, TaskName

NUMBERS = st.integers(0, 10**6)
# Streams that look like the rest of a name are the dangerous ones.
STREAMS = st.text(st.sampled_from("ab.-_0123456789#\n é"), min_size=1) | st.text(
    st.characters(exclude_characters="/"), min_size=1
)


@st.composite
def task_names(draw: st.DrawFn) -> TaskName:
    kind = draw(st.sampled_from(TaskKind))
    factor = 1 if kind is TaskKind.ORDINAL else draw(st.sampled_from(FACTORS))
    bucket = -1 if factor == 1 else draw(st.integers(0, factor - 1))
    system, stream = (draw(STREAMS), draw(STREAMS)) if kind is TaskKind.SSP else ("", "")
    return TaskName(kind=kind, number=draw(NUMBERS), system=system, stream=stream, bucket=bucket, factor=factor)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (TaskName(kind=TaskKind.PARTITION, number=3), "Partition_3"),
        (TaskName(kind=TaskKind.PARTITION, number=3, bucket=1, factor=2), "Partition_3-1-2"),
        (TaskName(kind=TaskKind.GROUP, number=3), "Group_3"),
        (TaskName(kind=TaskKind.GROUP, number=3, bucket=1, factor=2), "Group_3-1-2"),
        (
            TaskName(kind=TaskKind.SSP, system="kafka", stream="flights", number=3),
            "SystemStreamPartition_kafka/flights/3",
        ),
        (
            TaskName(kind=TaskKind.SSP, system="kafka", stream="a.b-1-2", number=3, bucket=1, factor=2),
            "SystemStreamPartition_kafka/a.b-1-2/3-1-2",
        ),
        (TaskName(kind=TaskKind.ORDINAL, number=0), "Task_0"),
    ],
)
def test_each_form(name: TaskName, text: str) -> None:
    assert str(name) == text
    assert names.parse(text) == name


@given(task_names())
def test_a_name_parses_back_exactly(name: TaskName) -> None:
    assert names.parse(str(name)) == name


@given(st.text(st.sampled_from("PartionGuTaskSyemP_/-0123456789 \n")) | st.from_regex(r"Partition_[0-9-]+\s?"))
def test_what_is_accepted_is_written_back_letter_for_letter(text: str) -> None:
    try:
        name = names.parse(text)
    except UsageError:
        return
    assert str(name) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Partition_",
        "Partition_03",
        "Partition_-1",
        "Partition_٣",
        "Partition_3\n",
        " Partition_3",
        "partition_3",
        "Partition_3-1",
        "Partition_3-1-1",
        "Partition_3-0-1",
        "Partition_3-2-2",
        "Partition_3-0-3",
        "Partition_3-0-2048",
        "Task_0-0-2",
        "Group_1/2",
        "SystemStreamPartition_kafka/3",
        "SystemStreamPartition_kafka//3",
        "SystemStreamPartition_/flights/3",
        "SystemStreamPartition_kafka/a/b/3",
        "SystemStreamPartition_3",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        names.parse(text)
    assert repr(text) in caught.value.what


@pytest.mark.parametrize(
    "parts",
    [
        {"kind": TaskKind.SSP, "number": 1},
        {"kind": TaskKind.SSP, "number": 1, "system": "a/b", "stream": "c"},
        {"kind": TaskKind.PARTITION, "number": 1, "system": "a", "stream": "b"},
        {"kind": TaskKind.PARTITION, "number": -1},
        {"kind": TaskKind.GROUP, "number": 1, "bucket": 0},
        {"kind": TaskKind.GROUP, "number": 1, "factor": 2},
        {"kind": TaskKind.ORDINAL, "number": 1, "bucket": 0, "factor": 2},
    ],
)
def test_parts_that_make_no_name_are_refused(parts: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        TaskName(**parts)  # type: ignore[arg-type]


@given(task_names(), st.integers(-1, 5) | st.sampled_from(FACTORS))
def test_only_a_task_that_is_not_virtual_is_divided_and_only_by_a_factor(name: TaskName, factor: int) -> None:
    if factor == 1:
        assert name.parts(factor) == [str(name)]
    elif factor in FACTORS and name == name.base and name.kind is not TaskKind.ORDINAL:
        parts = [names.parse(part) for part in name.parts(factor)]
        assert [(part.base, part.bucket, part.factor) for part in parts] == [(name, n, factor) for n in range(factor)]
    else:
        with pytest.raises(UsageError):
            name.parts(factor)


def test_names_are_ordered_by_number() -> None:
    texts = ["Partition_10", "Partition_9", "Partition_9-10-16", "Partition_9-9-16"]
    ordered = sorted(map(names.parse, texts), key=lambda name: name.order)
    assert [str(n) for n in ordered] == [
        "Partition_9",
        "Partition_9-9-16",
        "Partition_9-10-16",
        "Partition_10",
    ]


@given(task_names())
def test_a_virtual_task_is_divided_into_its_base_and_bucket(name: TaskName) -> None:
    assert names.divided(str(name)) == (str(name.base), max(0, name.bucket), name.factor)


@given(
    st.text(st.sampled_from("PartionGuTaskSyemP_/-0123456789 \n"))
    | st.from_regex(r"(Partition|Task|x)_[0-9-]+\s?", fullmatch=True)
)
@example("Partition_3-2-2")
@example("Partition_3-1-3")
@example("Partition_3-01-2")
@example("Partition_3-1-2-1-2")
@example("Task_3-1-2")
@example("mine-1-2")
@example("-1-2")
def test_a_text_that_is_no_name_is_divided_into_nothing(text: str) -> None:
    try:
        name = names.parse(text)
    except UsageError:
        assert names.divided(text) == (text, 0, 1)
    else:
        assert names.divided(text) == (str(name.base), max(0, name.bucket), name.factor)
