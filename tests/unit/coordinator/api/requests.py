"""Requests of every operation."""

from __future__ import annotations

SHA = "0" * 64


NAMES = {"job": "delays", "container": "delays:0:1", "sha256": SHA}


def filled(path: str) -> str:
    for name, value in NAMES.items():
        path = path.replace(f"{{{name}}}", value)
    return path
