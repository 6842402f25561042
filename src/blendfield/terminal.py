"""One line on the terminal that is written over and over."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

SECONDS_BETWEEN = 0.1


class TerminalLine:
    """Rewrites one line of the standard error; silent where that is no terminal."""

    def __init__(self, stream: TextIO | None = None, wanted: bool = True) -> None:
        self._stream = sys.stderr if stream is None else stream
        self.active = wanted and self._stream.isatty() and os.environ.get("TERM") != "dumb"
        self._shown_at = -1.0
        self._width = 0

    @property
    def due(self) -> bool:
        """Some time has passed since the line was shown: a caller need not make its text for nothing."""
        return self.active and time.monotonic() - self._shown_at >= SECONDS_BETWEEN

    def show(self, text: str) -> None:
        """Put `text` in place of what is there."""
        if self.active:
            self._shown_at = time.monotonic()
            self._write(text)

    def clear(self) -> None:
        """Leaves the line empty, for what follows."""
        if self._width:
            self._write("")
            self._stream.write("\r")
            self._stream.flush()

    def _write(self, text: str) -> None:
        text = text[: self._columns() - 1]  # a full line would go on to the next one
        self._stream.write("\r" + text + " " * (self._width - len(text)))
        self._stream.flush()
        self._width = len(text)

    def _columns(self) -> int:
        try:
            return max(os.get_terminal_size(self._stream.fileno()).columns, 2)
        except OSError:
            return 80
