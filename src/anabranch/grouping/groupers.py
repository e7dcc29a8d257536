"""The built-in groupers, by their names in the configuration."""

from __future__ import annotations

import difflib

from anabranch.errors import ConfigError
from anabranch.grouping import all as all_ssps
from anabranch.grouping import cogroup, partition, ssp
from anabranch.grouping.request import Grouper

__all__ = ["GROUPERS", "named"]

GROUPERS: dict[str, Grouper] = {
    "partition": partition.group,
    "ssp": ssp.group,
    "cogroup": cogroup.group,
    "all": all_ssps.group,
}


def named(name: str) -> Grouper:
    """The built-in grouper with this name.

    Raises:
        ConfigError: the name is unknown. The message lists the known names, and suggests a similar name if there is
            one.
    """
    if name in GROUPERS:
        return GROUPERS[name]
    near = difflib.get_close_matches(name.lower(), GROUPERS, n=1)
    raise ConfigError(
        f"no grouper is called {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
        f"set grouper to one of {', '.join(GROUPERS)}, or to a function of yours as module:function",
    )
