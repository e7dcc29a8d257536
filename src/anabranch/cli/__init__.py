"""The command line: one file a verb. Data on stdout, progress on stderr; errors say what, why and what next."""

from anabranch.cli.main import main

__all__ = ["main"]
