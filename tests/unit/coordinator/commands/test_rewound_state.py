"""State after rewinds holds what was read since it was cleared, whatever lanes go through."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.planning.transition import rewind
from tests.unit.coordinator.rewinds import PARTITIONS, coordinator, systems
from tests.unit.coordinator.rewound import LENGTH, Chain
from tests.unit.planning.factory import new_id

__all__ = ["coordinator", "systems"]  # fixtures


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32), containers=st.integers(1, 2), clears=st.lists(st.booleans(), max_size=4))
def test_state_holds_what_was_read_since_it_was_cleared(seed: int, containers: int, clears: list[bool]) -> None:
    """Exactly that: nothing of what lay between the stages from before, and all that has come there since."""
    dice = random.Random(seed)
    chain = Chain(containers)
    for clear in clears:
        for _ in range(dice.randrange(30)):
            chain.turn(dice)
        while chain.changing:
            chain.turn(dice)
        partitions = range(PARTITIONS) if clear else dice.sample(range(PARTITIONS), dice.randrange(1, PARTITIONS + 1))
        to = {f"embedded/in/{p}": 0 if clear else dice.randrange(LENGTH + 1) for p in partitions}
        chain.rewind(to, "clear" if clear else "keep")
        for _ in range(dice.randrange(9)):
            chain.turn(dice)
        begun = any(chain.lanes[name].begun for name in chain.model.rewound)
        if dice.random() < 0.5 and not (clear and begun):  # without state, what has begun unheard of does no harm
            chain.now -= clear
            chain.move(rewind.undone(chain.model, chain.lanes, new_id))
    chain.finish(dice)
    written = Counter(row for rows in chain.mid for row in rows if row[0] == chain.now)
    assert chain.state == written
    assert {(partition, offset) for _, partition, offset in written} == {
        (p, offset) for p in range(PARTITIONS) for offset in range(LENGTH)
    }
