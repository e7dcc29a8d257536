"""A lane that gets new partitions begins with all of its partitions anew."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.planning.transition import follow

BREAKS = frozenset({"each-once"})
FIRST = 4


def apply(patch: pytest.MonkeyPatch) -> None:
    fresh = follow.new_partitions

    def anew(before: Any, after: Any) -> Any:
        found = fresh(before, after)
        had = {ssp.whole for task in before.tasks for ssp in task.ssps}
        return found | {whole: whole for whole in had if found and whole.partition == 0}

    patch.setattr(follow, "new_partitions", anew)
