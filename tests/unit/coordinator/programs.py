"""Programs of jobs, as a coordinator is given them."""

from __future__ import annotations

from anabranch.protocol.deployment import Program

PROGRAM = Program(artifact="a" * 64, file="job.py", settings={"job": {"max_wait": "1 hour"}}, schemas={})
