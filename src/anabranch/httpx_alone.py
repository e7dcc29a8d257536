"""Imports httpx without its command-line module, because that module would import rich and pygments. Importing them
takes longer than everything else that most verbs of the CLI do.

httpx also works if its command-line module can't be imported, so that module is hidden while httpx is imported.
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
