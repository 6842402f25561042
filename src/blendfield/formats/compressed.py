"""Bytes of a file, compressed or not; how much of it is read is bounded."""

from __future__ import annotations

import gzip
import lzma
import os
import zlib
from collections.abc import Iterator
from typing import IO

from blendfield.errors import FileFormatError
from blendfield.files import written_atomically
from blendfield.inference import memory

Path = str | os.PathLike[str]

MAX_DECOMPRESSED = 2**30
"""Bytes: what a compressed file or a pipe may hold. A small file can unpack to any size and eat all memory."""
XZ_MEMORY = 2**28
"""Bytes the decoder of .xz may take for its dictionary; `xz -9` needs a quarter of that."""
CHUNK = 2**22

_GZIP, _XZ, _BZIP2 = b"\x1f\x8b", b"\xfd7zXZ\x00", b"BZh"


def read_text(path: Path) -> bytes:
    """The whole file, unpacked when its first bytes are those of gzip or xz.

    A missing or unreadable file stays an OSError; a damaged one, or one that unpacks to more than `MAX_DECOMPRESSED`,
    is a FileFormatError.
    """
    with open(path, "rb") as file:
        head = file.peek(6)[:6]
        if head.startswith(_BZIP2):
            raise FileFormatError(f"{path}: expected plain text, .gz or .xz, got bzip2")
        compressed = head.startswith((_GZIP, _XZ))
        size = os.fstat(file.fileno()).st_size
        if size > MAX_DECOMPRESSED and not compressed:
            memory.require(size, f"{path}: its text")
        try:
            if head.startswith(_GZIP):
                with gzip.GzipFile(fileobj=file) as unpacked:
                    return _bounded(path, iter(lambda: unpacked.read(CHUNK), b""), MAX_DECOMPRESSED)
            if head == _XZ:
                return _bounded(path, _unpack_xz(file), MAX_DECOMPRESSED)
            return _bounded(path, iter(lambda: file.read(CHUNK), b""), max(size, MAX_DECOMPRESSED))
        except (EOFError, lzma.LZMAError, zlib.error, gzip.BadGzipFile) as fault:
            raise FileFormatError(f"{path}: damaged or truncated compressed file ({fault})") from fault


def write_text(path: Path, text: bytes) -> None:
    """Writes the file whole, compressed when its name ends in .gz or .xz."""
    name = os.fspath(path)
    if name.endswith(".gz"):
        text = gzip.compress(text, mtime=0)  # the same text, the same file
    elif name.endswith(".xz"):
        text = lzma.compress(text)
    with written_atomically(path) as file:
        file.write(text)


def _bounded(path: Path, chunks: Iterator[bytes], limit: int) -> bytes:
    parts = []
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > limit:
            raise FileFormatError(f"{path}: expected at most {memory.in_words(limit)} of text after unpacking")
        parts.append(chunk)
    return b"".join(parts)


def _unpack_xz(file: IO[bytes]) -> Iterator[bytes]:
    """Like lzma.open, which offers no limit on the memory of the decoder. Streams may follow each other."""
    packed = file.read(CHUNK)
    while packed:
        decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY)
        while not decoder.eof:
            if decoder.needs_input and not packed and not (packed := file.read(CHUNK)):
                raise EOFError("the file ends early")
            chunk = decoder.decompress(packed, CHUNK)
            packed = b""
            if chunk:
                yield chunk
        packed = (decoder.unused_data or file.read(CHUNK)).lstrip(b"\0")  # padding between streams
        if not packed:
            packed = file.read(CHUNK).lstrip(b"\0")
