"""Every error and warning blendfield raises. All errors derive from `BlendfieldError`.

Each message names the place (region index, variable, option) and what was expected there.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BlendfieldError(Exception):
    """Root of every error raised by blendfield."""


class GraphError(BlendfieldError, ValueError):
    """The region graph is malformed: cardinalities, regions or edges."""


class PotentialError(BlendfieldError, ValueError):
    """Potentials, evidence or messages do not fit the graph, or hold NaN or +inf."""


class SupportError(PotentialError):
    """All labels of a region are forbidden (-inf), directly or through its neighbours."""


class CountingNumberError(BlendfieldError, ValueError):
    """Counting numbers are unknown, of the wrong length, or cannot be used here."""


class OptionError(BlendfieldError, ValueError):
    """An option of a public function has a value that makes no sense."""


class TableSizeError(BlendfieldError, OverflowError):
    """A region's table has more entries than can be addressed or is sensible."""


class FeatureError(BlendfieldError, ValueError):
    """Features do not fit the graph, hold NaN or infinity, or disagree between samples."""


class LabelError(BlendfieldError, ValueError):
    """True labels are out of range, missing, or made impossible by -inf."""


class LossError(BlendfieldError, ValueError):
    """A task loss is unknown or does not fit the graph."""


class NotFittedError(BlendfieldError, ValueError):
    """A learner is asked to predict before it has weights."""


class NotEnoughMemoryError(BlendfieldError, MemoryError):
    """The work would need more memory than there is; the estimate is stated before anything is allocated."""


class FileFormatError(BlendfieldError, ValueError):
    """A file cannot be read: truncated, of another kind, or of a newer version."""


class CheckpointError(BlendfieldError, ValueError):
    """A checkpoint belongs to another model or to other data; the message names the first difference."""


class EngineError(BlendfieldError, RuntimeError):
    """The engine cannot be used: no cluster, other versions there, or no worker left."""


class DataNotFoundError(BlendfieldError, FileNotFoundError):
    """A data set that cannot be shipped is not on this machine; the message says where it is looked for."""


class ImageError(BlendfieldError, ValueError):
    """A picture cannot be used: not an image, damaged, too large, without contrast, or of an unexpected kind."""


class MissingExtraError(BlendfieldError, ImportError):
    """Something was asked for that needs an optional package; the message says how to install it."""


class BlendfieldWarning(UserWarning):
    """The result is usable, but something was changed or cannot be certified."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: what may have been meant, or all there is."""
    names = list(known)
    close = difflib.get_close_matches(str(name), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known are {', '.join(names)}"
