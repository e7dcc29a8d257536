"""Which steps a printed plan has."""

from __future__ import annotations

import pytest

from anabranch.spark.internals import query_plan

PRINTED = """~Project [SortOrder#4, Window seat#5, Distinct AS d#6, r#7]
+- ~Join Inner, (k#1 = k#9)
   :- ~Project [a#2 AS SortOrder#4, b#3 AS Window seat#5, Generate this#8]
   :  :  +- Aggregate [max(Sort#10) AS m#11]
   :  +- Window [row_number() windowspecdefinition(a#2 ASC) AS r#7], [a#2 ASC]
   +- DeduplicateWithinWatermark [k#9]
      +- 'Generate explode(m#12), false, [key#13, value#14]
"""


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("Project", 2),
        ("Aggregate", 1),
        ("Window", 1),
        ("Deduplicate", 1),
        (query_plan.GENERATOR, 1),
        ("Sort", 0),
        ("Distinct", 0),
    ],
)
def test_steps_are_counted_and_not_the_columns_that_have_their_names(word: str, count: int) -> None:
    assert query_plan.steps(PRINTED, word) == count
