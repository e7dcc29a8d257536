"""Job files that tests run, each read from its path as a user's would be."""

from __future__ import annotations

from pathlib import Path

__all__ = ["JOBS"]

JOBS = Path(__file__).parent
