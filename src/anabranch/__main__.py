"""Runs the command line for ``python -m anabranch``."""

from anabranch.cli import main

main()
