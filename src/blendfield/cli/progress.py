"""One line on the terminal that says how far it is."""

from __future__ import annotations

from blendfield.inference import Progress
from blendfield.terminal import TerminalLine


class ProgressLine(TerminalLine):
    """A callback for `infer` that rewrites one line of the standard error; silent where that is no terminal."""

    def __call__(self, progress: Progress) -> None:
        if self.due:
            bounds = f"lower {progress.lower:.6g}  upper {progress.upper:.6g}  gap {progress.gap:.2g}"
            self.show(f"sweep {progress.iteration}  {bounds}  {progress.seconds:.1f} s")
