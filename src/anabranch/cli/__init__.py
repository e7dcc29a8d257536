"""The command line, with one file for each verb. Data goes to stdout, progress to stderr. Errors explain what happened,
why, and what to do next.
"""

from anabranch.cli.main import main

__all__ = ["main"]
