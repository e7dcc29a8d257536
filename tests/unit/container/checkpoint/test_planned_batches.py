"""What was planned for a query's batches is read once."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.checkpoint.planned_batches import planned_batches


class Entries:
    """A folder's entries: ``{batch: text}``, and which were read."""

    def __init__(self, entries: dict[int, str]) -> None:
        self.entries = entries
        self.read: list[int] = []

    def entry(self, number: int) -> str:
        self.read.append(number)
        return self.entries[number]

    def planned_entry(self, number: int) -> str:
        return self.entry(number)

    def before(self, number: int) -> str | None:
        return self.entry(number - 1) if number - 1 in self.entries else None

    def batch_of(self, number: int, entry: str, before: str | None) -> Any:
        return Planned(number, f"{before} to {entry}")


class Planned:
    def __init__(self, number: int, what: str) -> None:
        self.number, self.what = number, what


@pytest.mark.parametrize(
    ("asked", "read"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([5, 5, 6, 6], [5, 4, 6]),
        ([4, 5, 4, 5], [4, 3, 5]),
        ([4, 6, 7], [4, 3, 6, 5, 7]),
        ([*range(9), 0], [*range(9), 0]),
    ],
)
def test_each_entry_is_read_once_while_batches_follow_each_other(asked: list[int], read: list[int]) -> None:
    folder = Entries({number: f"e{number}" for number in range(9)})
    planned = planned_batches(folder)  # type: ignore[arg-type]
    for number in asked:
        before = f"e{number - 1}" if number else None
        assert planned(number).what == f"{before} to e{number}"  # type: ignore[attr-defined]
    assert folder.read == read


def test_what_is_not_there_is_asked_for_again() -> None:
    folder = Entries({3: "e3"})
    planned = planned_batches(folder)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        planned(4)
    folder.entries[4] = "e4"
    assert planned(4).what == "e3 to e4"  # type: ignore[attr-defined]
