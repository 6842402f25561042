"""Models, evidence and answers in the file formats of other programs."""

from blendfield.formats.answers import read_mar, read_mpe, read_pr, write_mar, write_mpe, write_pr
from blendfield.formats.evidence import read_evidence, write_evidence
from blendfield.formats.uai import read_uai, write_uai

__all__ = [
    "read_evidence",
    "read_mar",
    "read_mpe",
    "read_pr",
    "read_uai",
    "write_evidence",
    "write_mar",
    "write_mpe",
    "write_pr",
    "write_uai",
]
