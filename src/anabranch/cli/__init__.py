"""The command line, one file for each verb. Data goes to stdout, progress to stderr. Errors say what happened, why, and
what to do next.
"""

from anabranch.cli.main import main

__all__ = ["main"]
