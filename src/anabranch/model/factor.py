"""The allowed factors: the powers of two from 1 to 1024."""

from __future__ import annotations

from anabranch.errors import ConfigError

FACTORS = tuple(1 << power for power in range(11))


def check_factor(factor: int) -> int:
    """Return ``factor`` if it is allowed.

    Raises:
        ConfigError: ``factor`` isn't allowed. The message names the two nearest allowed factors.
    """
    if factor in FACTORS:
        return factor
    low, high = sorted(sorted(FACTORS, key=lambda allowed: abs(allowed - factor))[:2])
    raise ConfigError(
        f"factor {factor} is not a power of two from {FACTORS[0]} to {FACTORS[-1]}",
        f"the nearest that are allowed are {low} and {high}",
    )
