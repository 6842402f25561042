"""What a run ran on: versions and machine, in words, without anything that identifies a person or a host."""

from __future__ import annotations

import os
import platform
from importlib import metadata

_PACKAGES = ("blendfield", "numpy", "scipy", "matplotlib", "pillow")


def versions() -> dict[str, str]:
    """Version of Python and of every package that takes part and is installed."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine_in_words() -> str:
    """Such as "2 cores (AMD EPYC), 24 GiB memory, Linux x86_64"."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    words = [f"{cores} core{'s' if cores > 1 else ''} ({_processor()})"]
    memory = _memory()
    if memory:
        words.append(f"{memory / 2**30:.0f} GiB memory")
    words.append(f"{platform.system()} {platform.machine()}")
    return ", ".join(words)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    return " ".join(value.split())
    except OSError:
        pass
    return platform.processor() or "unknown processor"


def _memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
