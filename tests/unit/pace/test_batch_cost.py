"""How long a batch takes, from what the last ones took."""

from __future__ import annotations

import pytest

from anabranch.pace.batch_cost import BatchCost, RecentBatches


def cost(*batches: tuple[float, int, float | None]) -> BatchCost | None:
    recent = RecentBatches()
    for each in batches:
        recent.ran(*each)
    return recent.cost


@pytest.mark.parametrize(
    ("batches", "fixed", "per_record"),
    [
        ([(4.0, 1000, 3.0)], 1.0, 0.003),
        ([(4.0, 1000, 5.0)], 0.0, 0.005),  # figures of different moments
        ([(1.2, 10, 0.2), (4.0, 1000, 3.0)], 1.0, 3.2 / 1010),  # a large batch tells more of records
        ([(4.0, 1000, 3.0), (9.0, 1000, 3.0), (4.2, 1000, 3.0)], 1.2, 0.003),  # the second was held up
        ([(0.3, 10, None), (4.0, 1000, 3.0)], 1.0, 0.003),
        ([(9.0, 10, 8.0), *[(4.0, 1000, 3.0)] * 5], 1.0, 0.003),  # it is too long ago
    ],
)
def test_the_time_in_functions_grows_with_the_records(
    batches: list[tuple[float, int, float]], fixed: float, per_record: float
) -> None:
    found = cost(*batches)
    assert found is not None
    assert (found.fixed, found.per_record) == (pytest.approx(fixed), pytest.approx(per_record))


@pytest.mark.parametrize("batches", [[], [(4.0, 1000, 0.0)], [(4.0, 0, 3.0)], [(4.0, 1000, 3.0), (0.3, 10, None)]])
def test_without_functions_or_in_short_batches_the_records_do_not_matter(
    batches: list[tuple[float, int, float | None]],
) -> None:
    assert cost(*batches) is None


@pytest.mark.parametrize(("records", "seconds"), [(0, 1.0), (250, 1.75), (4000, 13.0)])
def test_a_batch_takes_a_fixed_time_and_some_for_each_record(records: int, seconds: float) -> None:
    assert BatchCost(1.0, 0.003).seconds(records) == pytest.approx(seconds)
