"""What the jobs of ``kill_any`` have written when they have ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.acceptance.harness import (
    MIDNIGHT,
    Workspace,
)

INPUT, PARTITIONS, KEYS = "numbers", 2, 11

_MINUTE = timedelta(minutes=1)

Values = list[tuple[Any, Any]]


def key_of(n: int) -> str:
    return f"k{n % KEYS:02}"


def _rows(workspace: Workspace, stream: str) -> Values:
    return list(workspace.contents(stream))


def _check_numbers(found: Values, wanted: Sequence[int]) -> None:
    """Each of these numbers once, and those of each key in order."""
    came = Counter(value["n"] for _, value in found)
    twice = sorted(n for n, times in came.items() if times > 1)
    lost = sorted(set(wanted) - set(came))
    assert not twice, f"{len(twice)} records came out more than once, as {twice[0]}"
    assert not lost, f"{len(lost)} records are lost, as {lost[0]}"
    assert set(came) == set(wanted), "records came out that nobody put in"
    by_key: dict[Any, list[int]] = defaultdict(list)
    for key, value in found:
        assert value["k"] == key_of(value["n"])
        by_key[key, value["k"]].append(value["n"])
    unordered = [key for key, numbers in by_key.items() if numbers != sorted(numbers)]
    assert not unordered, f"{len(unordered)} keys are out of order, as {unordered[0]}"


def _check_stateless(workspace: Workspace, count: int) -> None:
    _check_numbers(_rows(workspace, "kept"), [n for n in range(count) if n % 3])


def _minutes(count: int, watermark: datetime) -> dict[tuple[str, datetime], list[int]]:
    """The numbers of each key and minute that ends by the watermark, by its end."""
    found: dict[tuple[str, datetime], list[int]] = defaultdict(list)
    for n in range(count):
        at = MIDNIGHT + timedelta(seconds=n)
        found[key_of(n), at.replace(second=0, microsecond=0) + _MINUTE].append(n)
    return {place: numbers for place, numbers in found.items() if place[1] <= watermark}


def _check_windowed(workspace: Workspace, count: int) -> None:
    found = [
        ((value["k"], _at(value["window_start"]) + _MINUTE), (value["records"], value["total"]))
        for _, value in _rows(workspace, "minutes")
    ]
    due = _minutes(count, workspace.watermark("0"))
    assert len(found) == len(dict(found)), "a window came out twice"
    assert dict(found) == {place: (len(numbers), sum(numbers)) for place, numbers in due.items()}
    assert len(due) > count // 60 // 2 * KEYS, f"few windows have ended: {len(due)}"


def _check_processed(workspace: Workspace, count: int) -> None:
    rows = _rows(workspace, "ranked")
    _check_numbers([(key, value) for key, value in rows if value.get("ends") is None], range(count))
    wrong = [value for _, value in rows if value.get("ends") is None and value["rank"] != value["n"] // KEYS]
    assert not wrong, f"{len(wrong)} ranks are wrong, as {wrong[0]}"
    minutes = [((value["k"], _at(value["ends"])), value["n"]) for _, value in rows if value.get("ends") is not None]
    due = _minutes(count, workspace.watermark("0"))
    assert len(minutes) == len(dict(minutes)), "a timer went off twice"
    assert dict(minutes) == {place: len(numbers) for place, numbers in due.items()}


def _check_parted(workspace: Workspace, count: int) -> None:
    _check_numbers([((value["k"], value["n"] % 7), value) for _, value in _rows(workspace, "passed")], range(count))
    last: dict[int, int] = {}
    for _, value in _rows(workspace, "counts"):
        assert value["records"] > last.get(value["g"], 0), f"a count came twice, or late: {value}"
        last[value["g"]] = value["records"]
    assert last == Counter(n % 7 for n in range(count))


def _at(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).replace(tzinfo=UTC)


CHECKS: dict[str, Callable[[Workspace, int], None]] = {
    "stateless": _check_stateless,
    "windowed": _check_windowed,
    "processed": _check_processed,
    "parted": _check_parted,
}
