"""Makes the labels that error messages and reports use for operators."""

from __future__ import annotations

from anabranch.model.graph import Node


def label(node: Node) -> str:
    """An operator's kind, name and place in the job file: ``map 'map' (delays.py:12)``."""
    return f"{node.kind} {node.name!r} ({node.where})"
