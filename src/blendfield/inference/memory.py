"""How much memory there is, asked before anything large is allocated."""

from __future__ import annotations

import os
from pathlib import Path

from blendfield.errors import NotEnoughMemoryError


def require(estimate: int, what: str, limit: int | None = None) -> None:
    """Raise NotEnoughMemoryError when `estimate` bytes are more than there are, or than `limit`; where neither is
    known, hope.
    """
    if limit is not None and estimate > limit:
        raise NotEnoughMemoryError(
            f"{what} would need about {in_words(estimate)} of memory; memory_limit is {in_words(limit)}"
        )
    available = available_bytes()
    if available is not None and estimate > available:
        raise NotEnoughMemoryError(
            f"{what} would need about {in_words(estimate)} of memory, but only {in_words(available)} is available"
        )


def available_bytes() -> int | None:
    """Bytes that can still be allocated: the least of what the system and its control groups leave; None if unknown."""
    known = [size for size in (_system(), _control_group()) if size is not None]
    return min(known) if known else None


def in_words(size: int) -> str:
    """ "3.2 GiB" """
    value = float(size)
    units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        del units[0]
    return f"{value:.0f} bytes" if units[0] == "bytes" else f"{value:.1f} {units[0]}"


def _system() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _control_group() -> int | None:
    """What the limit of the control group leaves (version 2, then 1); cached files count as free."""
    for folder, limit_name, used_name, cache_name in (
        (Path("/sys/fs/cgroup"), "memory.max", "memory.current", "inactive_file "),
        (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    ):
        try:
            limit = int((folder / limit_name).read_text())  # "max" is no number: unlimited
            used = int((folder / used_name).read_text())
            statistics = (folder / "memory.stat").read_text().splitlines()
            cached = sum(int(line.split()[1]) for line in statistics if line.startswith(cache_name))
        except (OSError, ValueError):
            continue
        return max(0, limit - used + cached)
    return None
