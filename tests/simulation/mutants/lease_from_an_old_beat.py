"""A container counts its lease from when an answer comes, however old the beat is."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.container.agent import Agent

BREAKS = frozenset({"one-owner", "one-seat", "stopped-is-stopped"})


def apply(patch: pytest.MonkeyPatch) -> None:
    hear = Agent.hear

    def late(self: Agent, sent: Any, answer: Any) -> None:
        hear(self, sent, answer)
        if answer.alive:
            self._lease_until = self._clock() + self.me.lease

    patch.setattr(Agent, "hear", late)
