"""SSPs whose event time tests follow."""

from __future__ import annotations

A, B, C = "embedded/a/0", "embedded/a/1", "embedded/i/0"
