"""Models, evidence and answers in the file formats of other programs."""

from blendfield.formats.answers import read_mar, read_mpe, read_pr, write_mar, write_mpe, write_pr
from blendfield.formats.cfn import read_cfn
from blendfield.formats.evidence import read_evidence, write_evidence
from blendfield.formats.fg import read_fg, write_fg
from blendfield.formats.models import read_model, write_model
from blendfield.formats.shards import Shards, write_shards
from blendfield.formats.uai import read_uai, write_uai
from blendfield.formats.wcsp import read_wcsp

__all__ = [
    "Shards",
    "read_cfn",
    "read_evidence",
    "read_fg",
    "read_mar",
    "read_model",
    "read_mpe",
    "read_pr",
    "read_uai",
    "read_wcsp",
    "write_evidence",
    "write_fg",
    "write_mar",
    "write_model",
    "write_mpe",
    "write_pr",
    "write_shards",
    "write_uai",
]
