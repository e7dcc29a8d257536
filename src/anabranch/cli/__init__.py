"""The command line: one file for each verb. Data goes to stdout, progress to stderr; errors say what, why and what
next.
"""

from anabranch.cli.main import main

__all__ = ["main"]
