"""Optional packages, imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from blendfield.errors import MissingExtraError


def needed(module: str, extra: str, what: str) -> Any:
    """The module, or an error that says how to install it: `what` needs `module`, which `extra` brings."""
    try:
        return importlib.import_module(module)
    except ImportError as fault:
        package = module.partition(".")[0]
        raise MissingExtraError(f"{what} needs {package}: pip install 'blendfield[{extra}]'") from fault
