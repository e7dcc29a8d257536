"""Imports httpx without its command line, which would import rich and pygments. Those imports take longer than
everything else that a verb of the CLI does.

httpx leaves out its command line if rich isn't installed, so rich is hidden while httpx is imported.
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
