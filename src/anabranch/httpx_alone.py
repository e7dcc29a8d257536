"""Imports httpx without its command line, which would import rich and pygments. That takes longer than everything else
that most verbs do.

httpx works without its command line if that can't be imported (usually because rich isn't installed), so this module
prevents the import.
"""

from __future__ import annotations

import sys
from typing import Any

_COMMAND_LINE = "httpx._main"
_modules: dict[str, Any] = sys.modules

if "httpx" in _modules:
    import httpx
else:
    _modules[_COMMAND_LINE] = None
    try:
        import httpx
    finally:
        del _modules[_COMMAND_LINE]

__all__ = ["httpx"]
