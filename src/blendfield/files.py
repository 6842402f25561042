"""Files that are either whole or not there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def written_atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write to, renamed to `path` at the end: readers see the old file or the new one, never half.

    After an error nothing is left behind and the old file stays as it was.
    """
    target = os.path.abspath(os.fspath(path))
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(target), suffix=".tmp", delete=False) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.chmod(file.name, 0o666 & ~_umask())  # temporary files are private; the result is an ordinary file
            os.replace(file.name, target)
        except BaseException:
            os.unlink(file.name)
            raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
