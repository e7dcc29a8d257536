"""The command line, with one file for each verb. Data goes to stdout, progress to stderr."""

from anabranch.cli.main import main

__all__ = ["main"]
