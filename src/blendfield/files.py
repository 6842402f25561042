"""Files that are either whole or not there."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO


@contextmanager
def written_atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file to write to, which takes the place of `path` at the end: readers see the old file or the new one,
    never half.

    After an error nothing is left behind and the old file stays as it was. Where the system knows files without a name
    (Linux), nothing is left behind even by a process that is killed while it writes; only if that happens between the
    last two system calls, a whole file `.NAME.tmp` stays, which the next write to the same place removes.
    """
    target = os.path.abspath(os.fspath(path))
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "no such folder", folder)
    nameless = _open_nameless(folder)
    if nameless is None:
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".tmp", delete=False) as file:
            try:
                yield file
                _flush(file)
                os.chmod(file.name, 0o666 & ~_umask())  # temporary files are private; the result is an ordinary file
                os.replace(file.name, target)
            except BaseException:
                os.unlink(file.name)
                raise
    else:
        with os.fdopen(nameless, "w+b") as file:
            yield file
            _flush(file)
            _put(file, os.path.join(folder, f".{os.path.basename(target)}.tmp"), target)
    with suppress(OSError):  # so that the new name survives a power cut
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _open_nameless(folder: str) -> int | None:
    """A descriptor of a new file that has no name yet; None where that, or naming it later, is not possible."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o666)
    except OSError:
        return None


def _put(file: IO[bytes], name: str, target: str) -> None:
    """Let a nameless file take the place of `target`, by way of `name`: links never replace what is there."""
    while True:
        try:
            _name(file, name)
        except FileExistsError:  # of a killed process, or of one that writes to the same place just now
            with suppress(FileNotFoundError):
                os.unlink(name)
            continue
        try:
            os.replace(name, target)
            return
        except FileNotFoundError:  # taken away by another writer
            continue
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise


def _name(file: IO[bytes], name: str) -> None:
    """Give a nameless file its name. With a folder's descriptor the link of /proc is followed, without it is not."""
    folder = os.open("/", os.O_RDONLY)
    try:
        os.link(f"/proc/self/fd/{file.fileno()}", name, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
