"""Training sets in files, read a few samples at a time, by whoever needs them.

A folder holds shards `00000.safetensors`, `00001.safetensors`, ..., each with some hundred samples:

metadata   format "blendfield.samples", format_version, and as JSON about (plain data of whoever wrote the set, the same
           in all shards; may be absent), blocks (the weights that the features need: name, kind and shape), graphs
           [{cardinalities, region_offsets, region_variables, edge_parents, edge_children, num_given}] and samples
           [{graph, labels, loss, weight, positions, fixed, features}] in order, where features are [{name, kind,
           shape, pieces}] and a piece is what `model.pieces` says, by field; arrays are {"tensor": name}
tensors    sizes int64 [samples] (table entries of each), digests uint8 [samples, 16], and the arrays. Arrays that are
           the same in several samples are there once.

Nothing is executed on reading, and every index is checked: a damaged file is a FileFormatError.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from hashlib import blake2b
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from blendfield.errors import BlendfieldError, FileFormatError, OptionError
from blendfield.formats.plain import from_metadata, pack, to_text, unpack
from blendfield.formats.safetensors import Array, TensorFile, write_tensors
from blendfield.graph import RegionGraph
from blendfield.graph.ragged import Ragged
from blendfield.model.digest import digests
from blendfield.model.losses import loss_table
from blendfield.model.pieces import BlockShape, BoundBlock, Linear, Piece, Rows, Terms
from blendfield.model.sample import Sample
from blendfield.model.weights import WeightLayout

FORMAT = "blendfield.samples"
VERSION = 1
ENTRIES = 1 << 22
"""table entries of a shard, about"""
MOST_SAMPLES = 1000
"""of a shard: its heading is read as a whole"""
KINDS: dict[str, type[Piece]] = {"terms": Terms, "rows": Rows, "linear": Linear}
GRAPH = ("cardinalities", "region_offsets", "region_variables", "edge_parents", "edge_children")
Source = str | os.PathLike[str]


# Writing.


def write_shards(folder: Source, samples: Iterable[Sample], entries: int = ENTRIES, about: Any = None) -> int:
    """Write labelled samples to a new or empty folder, in shards of about `entries` table entries; how many shards.

    `samples` may be a generator: no more than one shard is held in memory. `about`: plain data (numbers, strings,
    lists, mappings, arrays) that `Shards.about` gives back.
    """
    os.makedirs(folder, exist_ok=True)
    if os.listdir(folder):
        raise OptionError(f"{os.fspath(folder)}: expected a new or empty folder")
    part: list[Sample] = []
    held = count = 0
    for number, sample in enumerate(samples):
        if not isinstance(sample, Sample):
            raise OptionError(f"sample {number}: expected a Sample; got {type(sample).__name__}")
        size = int(sample.graph.table_offsets[-1])
        if part and (held + size > entries or len(part) == MOST_SAMPLES):
            _write_shard(folder, count, part, about)
            part, held, count = [], 0, count + 1
        part.append(sample)
        held += size
    if part:
        _write_shard(folder, count, part, about)
        count += 1
    return count


def _write_shard(folder: Source, number: int, samples: Sequence[Sample], about: Any) -> None:
    tensors = _Distinct()
    graphs: dict[int, int] = {}
    described, packed_graphs = [], []
    for sample in samples:
        graph = sample.graph
        if id(graph) not in graphs:
            graphs[id(graph)] = len(graphs)
            own = {name: tensors.keep(getattr(graph, name)) for name in GRAPH}
            packed_graphs.append({**own, "num_given": graph.num_given})
        described.append(_described(sample, graphs[id(graph)], tensors))
    sizes: Array = np.array([sample.graph.table_offsets[-1] for sample in samples], dtype=np.int64)
    metadata = {
        "format": FORMAT,
        "format_version": str(VERSION),
        "blocks": to_text(WeightLayout.of_samples(samples).to_json()),
        "graphs": to_text(packed_graphs),
        "samples": to_text(described),
    }
    arrays = {**tensors.arrays, "sizes": sizes, "digests": digests(samples)}
    if about is not None:
        metadata["about"] = to_text(pack(about, "about", arrays))
    write_tensors(os.path.join(folder, f"{number:05d}.safetensors"), arrays, metadata)


class _Distinct:
    """Arrays by name, equal ones once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self._names: dict[Any, str] = {}

    def keep(self, array: Any) -> Any:
        """How the metadata speak of an array; None stays None, sparse matrices become their three arrays."""
        if array is None:
            return None
        if hasattr(array, "tocsr"):
            return {
                "csr": [self.keep(np.asarray(part)) for part in (array.data, array.indices, array.indptr)],
                "shape": list(array.shape),
            }
        array = np.ascontiguousarray(array)
        key = array.dtype.str, array.shape, blake2b(array.reshape(-1).view(np.uint8).data, digest_size=16).digest()
        name = self._names.setdefault(key, f"a{len(self._names)}")
        self.arrays[name] = array
        return {"tensor": name}


def _described(sample: Sample, graph: int, tensors: _Distinct) -> Any:
    loss = sample.loss
    if loss is not None and not isinstance(loss, str) and sample.labels is not None:
        loss = loss_table(sample.graph, sample.labels, loss)
    features = [
        {
            "name": block.name,
            "kind": block.shape.kind,
            "shape": list(block.shape.shape),
            "pieces": [_described_piece(piece, tensors) for piece in block.pieces],
        }
        for block in sample.blocks
    ]
    positions = None if sample.positions is None else np.asarray(sample.positions, dtype=np.float64)
    return {
        "graph": graph,
        "labels": tensors.keep(sample.labels),
        "loss": loss if loss is None or isinstance(loss, str) else tensors.keep(loss),
        "weight": pack(sample.weight, "weight", {}),
        "positions": tensors.keep(positions),
        "fixed": tensors.keep(sample.fixed),
        "features": features,
    }


def _described_piece(piece: Piece, tensors: _Distinct) -> Any:
    kind = next(name for name, kind in KINDS.items() if isinstance(piece, kind))
    values = {field.name: getattr(piece, field.name) for field in fields(piece)}
    return {
        "form": kind,
        **{name: value if isinstance(value, int) else tensors.keep(value) for name, value in values.items()},
    }


# Reading.


class Shards(Sequence[Sample]):
    """The samples of a folder, or some of them: nothing but headings is held; a sample is read when it is asked for."""

    def __init__(self, source: Source | Sequence[Source]) -> None:
        """`source`: a folder, a shard, or several of them, in this order.

        FileFormatError for a folder without shards, for one that is damaged, and for shards that do not belong
        together.
        """
        sources = [source] if isinstance(source, (str, os.PathLike)) else source
        self.paths = [path for one in sources for path in _paths_of(os.path.abspath(one), os.fspath(one))]
        if not self.paths:
            raise FileFormatError("no shards were given")
        sizes, found, layouts = [], [], []
        self.about: Any = None
        """what `write_shards` was told of the set"""
        for number, path in enumerate(self.paths):
            file = _opened(path)
            own, rows = _heading(file)
            sizes.append(own)
            found.append(rows)
            layouts.append(_layout(file))
            about = from_metadata(file, "about") if "about" in file.metadata else None
            if number == 0:
                self.about = about
            elif not _equal(about, self.about):
                raise FileFormatError(f"{path}: belongs to another training set than {self.paths[0]}")
        self.sizes: npt.NDArray[np.int64] = np.concatenate(sizes)
        """int64 [N]: table entries of every sample"""
        self.digests: npt.NDArray[np.uint8] = np.concatenate(found)
        """uint8 [N, 16], as `model.digest.digests` makes them"""
        self.layout = WeightLayout.merged(layouts, [f"shard {os.path.basename(path)}" for path in self.paths])
        counts = [len(own) for own in sizes]
        self._shard = np.repeat(np.arange(len(counts)), counts)
        self._place = np.concatenate([np.arange(count) for count in counts])

    def __len__(self) -> int:
        return len(self._shard)

    @overload
    def __getitem__(self, number: int) -> Sample: ...
    @overload
    def __getitem__(self, number: slice) -> Shards: ...
    def __getitem__(self, number: int | slice) -> Sample | Shards:
        if isinstance(number, slice):
            part = Shards.__new__(Shards)
            part.paths, part.layout, part.about = self.paths, self.layout, None
            part.sizes, part.digests = self.sizes[number], self.digests[number]
            part._shard, part._place = self._shard[number], self._place[number]
            return part
        index = range(len(self))[number]
        return next(iter(self[index : index + 1]))

    def __iter__(self) -> Iterator[Sample]:
        for shard in dict.fromkeys(self._shard.tolist()):
            yield from _samples(_opened(self.paths[shard]), self._place[self._shard == shard].tolist())

    def __repr__(self) -> str:
        return f"Shards({len(self)} samples in {len(set(self._shard.tolist()))} files, {self.layout!r})"


def _paths_of(path: str, given: str) -> list[str]:
    """A shard, or all of a folder."""
    if not os.path.isdir(path):
        return [path]
    names = sorted(name for name in os.listdir(path) if name.endswith(".safetensors"))
    expected = [f"{number:05d}.safetensors" for number in range(len(names))]
    if not names or names != expected:
        missing = next((name for name in expected if name not in names), "00000.safetensors")
        raise FileFormatError(f"{given}: no complete set of shards: {missing} is missing")
    return [os.path.join(path, name) for name in names]


def _equal(one: Any, other: Any) -> bool:
    """Of plain data with arrays inside."""
    tensors: tuple[dict[str, Array], dict[str, Array]] = {}, {}
    texts = [to_text(pack(value, "about", own)) for value, own in zip((one, other), tensors, strict=True)]
    return texts[0] == texts[1] and all(np.array_equal(array, tensors[1][name]) for name, array in tensors[0].items())


def _opened(path: str) -> TensorFile:
    file = TensorFile(path)
    file.require(FORMAT, VERSION)
    return file


def _heading(file: TensorFile) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """(sizes, digests) of one shard."""
    described = from_metadata(file, "samples", plain=False)
    for name, dtype, axes in (("sizes", np.int64, 1), ("digests", np.uint8, 2)):
        if name not in file or not isinstance(described, list) or file.shape(name)[:1] != (len(described),):
            raise FileFormatError(f"{file.path}: {name!r} is missing or does not fit the samples")
        if file[name].dtype != dtype or file[name].ndim != axes:
            raise FileFormatError(f"{file.path}: {name!r} must be {np.dtype(dtype)} with {axes} axes")
    return file["sizes"], file["digests"]


def _layout(file: TensorFile) -> WeightLayout:
    try:
        return WeightLayout.from_json(from_metadata(file, "blocks", plain=False))
    except BlendfieldError as fault:
        raise FileFormatError(f"{file.path}: blocks: {fault}") from None


def _samples(file: TensorFile, places: Sequence[int]) -> Iterator[Sample]:
    """Arrays and graphs that several of the samples have are read once."""
    described, graphs = (from_metadata(file, key, plain=False) for key in ("samples", "graphs"))
    layout, sizes = _layout(file), file["sizes"]
    arrays: dict[str, Any] = {}
    known: dict[int, RegionGraph] = {}

    def read(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"csr", "shape"}:
            from scipy.sparse import csr_array

            matrix = csr_array(tuple(read(part) for part in value["csr"]), shape=tuple(value["shape"]))
            matrix.check_format(full_check=True)
            return matrix
        if not isinstance(value, dict):
            return value
        name = str(value["tensor"])
        if name not in arrays:
            arrays[name] = unpack(value, file)
        return arrays[name]

    for place in places:
        try:
            own = described[place]
            number = own["graph"]
            if number not in known:
                known[number] = _graph(graphs[number], read)
            if int(sizes[place]) != int(known[number].table_offsets[-1]):
                raise FileFormatError("its size is not that of its graph")
            yield _sample(own, known[number], layout, read)
        except (BlendfieldError, KeyError, TypeError, ValueError, IndexError, AttributeError) as fault:
            raise FileFormatError(f"{file.path}: sample {place}: {fault}") from fault


def _graph(own: Any, read: Any) -> RegionGraph:
    """Checked like any other input."""
    arrays = {name: read(own[name]) for name in GRAPH}
    offsets, variables = arrays["region_offsets"], arrays["region_variables"]
    if offsets.ndim != 1 or offsets[0] != 0 or (np.diff(offsets) <= 0).any() or offsets[-1] != len(variables):
        raise FileFormatError("region_offsets do not fit region_variables")
    edges = np.stack([arrays["edge_parents"], arrays["edge_children"]], axis=1)
    regions = Ragged(offsets.astype(np.int64), variables.astype(np.int32))
    graph = RegionGraph(arrays["cardinalities"], regions, edges)
    if graph.num_regions != len(offsets) - 1 or not 0 <= own["num_given"] <= graph.num_regions:
        raise FileFormatError("single-variable regions are missing")
    graph.num_given = int(own["num_given"])
    return graph


def _sample(own: Any, graph: RegionGraph, layout: WeightLayout, read: Any) -> Sample:
    sample = Sample(graph, [], read(own["labels"]), read(own["loss"]), float(own["weight"]), read(own["positions"]))
    sample.fixed = read(own["fixed"])
    if sample.fixed is not None and (
        sample.fixed.dtype != np.float64 or len(sample.fixed) != graph.table_offsets[-1] or np.isnan(sample.fixed).any()
    ):
        raise FileFormatError("fixed must be float64, one number per table entry")
    for block in own["features"]:
        shape = BlockShape(block["kind"], tuple(block["shape"]))
        bound = BoundBlock(block["name"], shape, [_piece(piece, read) for piece in block["pieces"]])
        layout.check(bound, "features")
        weights = int(np.prod(shape.shape, dtype=np.int64))
        for piece in bound.pieces:
            _check_piece(piece, graph, weights)
        sample.blocks.append(bound)
    return sample


def _piece(own: Any, read: Any) -> Piece:
    kind = KINDS[own["form"]]
    return kind(**{field.name: read(own[field.name]) for field in fields(kind)})


def _check_piece(piece: Piece, graph: RegionGraph, weights: int) -> None:
    """FileFormatError unless every index is where it may be."""

    def require(condition: Any, what: str) -> None:
        if not condition:
            raise FileFormatError(f"features: {what}")

    count = len(piece.start)
    require(piece.start.dtype == np.int64 and piece.start.ndim == 1, "start must be int64 [n]")
    region = np.searchsorted(graph.table_offsets, piece.start, side="right") - 1
    inside = (piece.start >= 0) & (piece.start < graph.table_offsets[-1])
    require(inside.all() and (graph.table_offsets[region] == piece.start).all(), "start is not where a table begins")
    size = piece.tables.shape[-1] if isinstance(piece, Terms) else piece.size
    require((graph.table_sizes[region] == size).all(), "tables have another size than their regions")
    if isinstance(piece, Linear):
        matrix = piece.features
        require(matrix.dtype == np.float64 and matrix.ndim == 2 and len(piece.start) == matrix.shape[0], "wrong matrix")
        require(size * matrix.shape[1] <= weights, "more features than weights")
        require(np.isfinite(matrix.data if hasattr(matrix, "tocsr") else matrix).all(), "NaN or infinity")
        return
    if piece.coefficient is not None:
        require(piece.coefficient.dtype == np.float64 and piece.coefficient.shape == (count,), "wrong coefficients")
        require(np.isfinite(piece.coefficient).all(), "NaN or infinity")
    first, width = (piece.weight, 1) if isinstance(piece, Terms) else (piece.base, size)
    require(first.dtype == np.int32 and first.shape == (count,), "weights must be int32 [n]")
    require((first >= 0).all() and (first.astype(np.int64) + width <= weights).all(), "a weight that is not there")
    if isinstance(piece, Terms):
        require(piece.tables.dtype == np.float64 and piece.tables.ndim == 2, "tables must be float64 [rows, Y]")
        require(np.isfinite(piece.tables).all(), "NaN or infinity")
        rows = np.arange(count, dtype=np.int32) if piece.table is None else piece.table
        require(rows.dtype == np.int32 and rows.shape == (count,), "rows must be int32 [n]")
        require((rows >= 0).all() and (rows < len(piece.tables)).all(), "a table that is not there")
