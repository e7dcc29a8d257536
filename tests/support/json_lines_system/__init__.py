"""A system that anabranch doesn't ship: streams in a folder of JSON lines. docs/contributing/adding-a-system.md
explains it. Settings name its class, and nothing else of anabranch or of the tests knows it."""

from tests.support.json_lines_system.system import JsonLinesSystem

__all__ = ["JsonLinesSystem"]
