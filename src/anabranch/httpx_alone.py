"""httpx without its command line, which imports rich and pygments: that takes longer than all else of a verb.

httpx does without it where rich isn't installed, and here where it isn't found.
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
