"""A container takes an answer that a later one has overtaken for the newest."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.agent import Agent

BREAKS = frozenset({"progress", "stopped-is-stopped", "predecessors-first", "closed-stays", "one-owner"})


def apply(patch: pytest.MonkeyPatch) -> None:
    hear = Agent.hear

    def any_answer(self: Agent, sent: Any, answer: Any) -> None:
        self._heard = -1
        hear(self, sent, answer)

    patch.setattr(Agent, "hear", any_answer)
