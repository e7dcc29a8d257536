"""The options shared by all verbs that change a running job and wait for the change."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from anabranch.cli import haste, options

__all__ = ["ChangeOptions", "with_change_options"]


@dataclass(frozen=True, kw_only=True)
class ChangeOptions:
    """The options shared by all verbs that change a running job and wait for the change. Each field is one option."""

    timeout: options.Timeout = 300.0
    now: haste.Now = False
    detach: options.Detach = False
    config: options.Config = None
    json: options.Json = False

    @property
    def patience(self) -> float | None:
        """How many seconds the verb waits; None if it doesn't wait."""
        return None if self.detach else self.timeout


def with_change_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Replace a verb's last parameter, a :class:`ChangeOptions`, with a parameter for each of its fields, as Typer
    requires."""
    *own, last = inspect.signature(verb, eval_str=True).parameters.values()
    shared = inspect.signature(ChangeOptions, eval_str=True).parameters

    @functools.wraps(verb)
    def run(**given: Any) -> None:
        chosen = ChangeOptions(**{name: given.pop(name) for name in shared})
        verb(**given, **{last.name: chosen})

    signature = inspect.Signature([*own, *shared.values()])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in signature.parameters.values()}
    return run
