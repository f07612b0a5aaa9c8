"""Where numbers lie: shapes, pieces and places. Most of it costs no node."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gtp.errors import UserError
from gtp.onnx_graph.sums import add
from gtp.onnx_graph.values import Joined, Shape, Sum, fixed, is_fixed, pad, plain, rank_of, strip
from gtp.onnx_graph.writer import Writer


def broadcast_in_dim(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """New axes; those in front, and sizes, are left to the operators."""
    (x, *_), where = values, params["broadcast_dimensions"]
    rank, size = len(target), len(shapes[0])
    if tuple(where) == tuple(range(rank - size, rank)):
        return x  # Axes are added in front only: broadcasting does that by itself.
    # From the first axis on, sizes of 1 stand where axes are new.
    spread = [1] * rank
    if is_fixed(x):
        padded = pad(x.constant.shape, size)
        for i, j in enumerate(where):
            spread[j] = padded[i]
        return fixed(x.constant.reshape(spread))
    tensor = writer.ranked(x, size)
    for i, j in enumerate(where):
        spread[j] = tensor.shape[i]
    return plain(writer.reshape(tensor, strip(tuple(spread))))


def reshape(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """Another shape; axes of size 1 in front make no difference."""
    (x, *_) = values
    if strip(shapes[0]) == strip(target) and isinstance(x, Sum) and rank_of(x) <= len(target):
        return x
    if is_fixed(x) and all(isinstance(d, int) for d in (*shapes[0], *target)):
        return fixed(np.broadcast_to(x.constant, shapes[0]).reshape(target))
    return plain(writer.reshape(writer.full(x, shapes[0]), target))


def squeeze(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """Without some axes of size 1."""
    (x,), axes = values, params["dimensions"]
    if not isinstance(x, Sum):
        x = plain(writer.tensor(x))
    if strip(shapes[0]) == strip(target) and rank_of(x) <= len(target):
        return x
    keep = [i for i in range(len(shapes[0])) if i not in axes]
    if is_fixed(x):
        padded = pad(x.constant.shape, len(shapes[0]))
        return fixed(x.constant.reshape([padded[i] for i in keep]))
    tensor = writer.ranked(x, len(shapes[0]))
    return plain(writer.reshape(tensor, tuple(tensor.shape[i] for i in keep)))


def expand_dims(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """With new axes of size 1."""
    where = [i for i in range(len(target)) if i not in params["dimensions"]]
    return broadcast_in_dim(writer, {"broadcast_dimensions": where}, values, shapes, target)


def transpose(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Sum:
    """Axes in another order."""
    (x,), permutation = values, params["permutation"]
    if is_fixed(x):
        return fixed(x.constant.reshape(pad(x.constant.shape, len(target))).transpose(permutation))
    return plain(writer.transpose(writer.ranked(x, len(target)), permutation))


def concatenate(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """A concatenation, not yet carried out."""
    axis = params["dimension"]
    if all(is_fixed(v) for v in values):
        arrays = [v.constant.reshape(pad(v.constant.shape, len(target))) for v in values]
        arrays = [
            np.broadcast_to(a, [*a.shape[:axis], s[axis], *a.shape[axis + 1 :]])
            for a, s in zip(arrays, shapes, strict=True)
        ]
        common = np.broadcast_shapes(*([*a.shape[:axis], 1, *a.shape[axis + 1 :]] for a in arrays))
        arrays = [np.broadcast_to(a, [*common[:axis], a.shape[axis], *common[axis + 1 :]]) for a in arrays]
        return fixed(np.concatenate(arrays, axis))
    joined = Joined([], [], axis)
    for value, shape in zip(values, shapes, strict=True):
        if isinstance(value, Joined) and value.axis == axis:
            joined = Joined(joined.parts + value.parts, joined.shapes + value.shapes, axis)
        else:
            part: Any = writer.settle(value) if isinstance(value, Sum) else plain(writer.tensor(value))
            joined = Joined([*joined.parts, part], [*joined.shapes, shape], axis)
    return joined


def stack(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """A concatenation on a new axis."""
    axis = params["axis"]
    wide = (*target[:axis], 1, *target[axis + 1 :])
    parts = [
        expand_dims(writer, {"dimensions": (axis,)}, [v], [s], wide)
        for v, s in zip(values, shapes, strict=True)
    ]
    return concatenate(writer, {"dimension": axis}, parts, [wide] * len(parts), target)


def cut(writer: Writer, x: Any, shape: Shape, axis: int, start: int, stop: int, step: int = 1) -> Any:
    """x[start:stop:step] on one axis."""
    if isinstance(x, Joined) and axis == x.axis:
        begin = 0
        for part, part_shape in zip(x.parts, x.shapes, strict=True):
            end = begin + part_shape[axis]
            if begin <= start and stop <= end:
                return cut(writer, part, part_shape, axis, start - begin, stop - begin, step)
            begin = end
    if (start, stop, step) == (0, shape[axis], 1):
        return x
    place = axis - len(shape)
    if is_fixed(x):
        if x.constant.ndim < -place or x.constant.shape[place] == 1:
            return x
        index = [slice(None)] * x.constant.ndim
        index[place] = slice(start, stop, step)
        return fixed(x.constant[tuple(index)])
    tensor = writer.tensor(x)
    if len(tensor.shape) < -place or tensor.shape[place] == 1:
        return plain(tensor)
    out = list(tensor.shape)
    out[place] = -(-(stop - start) // step)
    limits = [writer.store(np.asarray([v], np.int64)) for v in (start, stop, len(out) + place, step)]
    return plain(writer.emit("Slice", [tensor, *limits], tuple(out)))


def cut_out(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """A slice, axis by axis."""
    x, shape = values[0], list(shapes[0])
    steps = params["strides"] or [1] * len(shape)
    ends: list[Any] = [d if isinstance(d, int) else str(d) for d in params["limit_indices"]]
    for axis, (start, stop, step) in enumerate(zip(params["start_indices"], ends, steps, strict=True)):
        if (start, stop, step) != (0, shape[axis], 1):
            x = cut(writer, x, tuple(shape), axis, start, stop, step)
            shape[axis] = target[axis]
    return x


def scatter_add(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """Something added at one fixed place of one axis: the gradient of picking it."""
    (x, index, part), numbers = values, params["dimension_numbers"]
    axes = tuple(numbers.inserted_window_dims)
    one_place = is_fixed(index) and index.constant.size == 1 and not numbers.operand_batching_dims
    if not one_place or len(axes) != 1 or axes != tuple(numbers.scatter_dims_to_operand_dims):
        raise UserError("export to ONNX adds at one fixed place only, not by this scatter")
    (axis,), place = axes, int(index.constant.reshape(()))
    thin = (*target[:axis], 1, *target[axis + 1 :])
    part = expand_dims(writer, {"dimensions": (axis,)}, [part], [shapes[2]], thin)
    size = target[axis]
    if size > 1:
        pads = np.zeros((2, len(target)), np.int64)
        pads[:, axis] = place, size - 1 - place
        part = plain(writer.emit("Pad", [writer.full(part, thin), writer.store(pads.reshape(-1))], target))
    return add(writer, {}, [x, part], shapes, target)


def split(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> list[Any]:
    """Pieces of fixed sizes along an axis."""
    (x,), axis, edges = values, params["axis"], np.cumsum([0, *params["sizes"]])
    x = writer.settle(x)
    x = x if is_fixed(x) else plain(writer.tensor(x))
    return [cut(writer, x, shapes[0], axis, int(a), int(b)) for a, b in itertools.pairwise(edges)]


def unstack(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> list[Any]:
    """Each place of an axis by itself."""
    (shape,), axis = shapes, params["axis"]
    thin = (*shape[:axis], 1, *shape[axis + 1 :])
    parts = split(writer, {"axis": axis, "sizes": [1] * shape[axis]}, values, shapes, thin)
    return [squeeze(writer, {"dimensions": (axis,)}, [part], [thin], target) for part in parts]


def dynamic_slice(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """A slice at places that turned out to be constants."""
    x, *starts = values
    if not all(is_fixed(s) for s in starts):
        raise UserError("export to ONNX slices at fixed places only")
    shape = list(shapes[0])
    for axis, (start, size) in enumerate(zip(starts, target, strict=True)):
        if size != shape[axis]:
            first = int(np.clip(int(start.constant), 0, shape[axis] - size))
            x = cut(writer, x, tuple(shape), axis, first, first + size)
            shape[axis] = size
    return x


def gather(writer: Writer, params: Any, values: Any, shapes: Any, target: Shape) -> Any:
    """x[i] at a fixed place on one axis, or `take_along_axis`."""
    (x, index), numbers = values, params["dimension_numbers"]
    axes, sizes = numbers.start_index_map, params["slice_sizes"]
    batching = tuple(numbers.operand_batching_dims)
    if len(axes) == 1 and not batching and is_fixed(index) and index.constant.size == 1:
        (axis,) = axes
        start = int(np.clip(int(index.constant.reshape(())), 0, shapes[0][axis] - sizes[axis]))
        part = cut(writer, x, shapes[0], axis, start, start + int(sizes[axis]))
        shape = tuple(int(sizes[axis]) if i == axis else d for i, d in enumerate(shapes[0]))
        return squeeze(writer, {"dimensions": numbers.collapsed_slice_dims}, [part], [shape], target)
    rank = len(shapes[0])
    rows = [i for i in range(rank) if i not in numbers.offset_dims]
    along = len(axes) == 1 and tuple(numbers.collapsed_slice_dims) == tuple(axes) and len(target) == rank
    if along and sorted((*axes, *batching)) == rows and shapes[1][-1] == 1:
        where = writer.ranked(index, len(shapes[1]))
        spread = [1] * rank
        for i, j in enumerate(rows):
            spread[j] = where.shape[i]
        place = writer.full(plain(writer.reshape(where, tuple(spread))), target)
        return plain(
            writer.emit("GatherElements", [writer.full(x, shapes[0]), place], target, axis=int(axes[0]))
        )
    raise UserError("export to ONNX knows indexing at fixed places and take_along_axis, not this gather")


RULES = {
    "broadcast_in_dim": broadcast_in_dim,
    "concatenate": concatenate,
    "dynamic_slice": dynamic_slice,
    "expand_dims": expand_dims,
    "gather": gather,
    "reshape": reshape,
    "scatter-add": scatter_add,
    "scatter_add": scatter_add,
    "slice": cut_out,
    "split": split,
    "squeeze": squeeze,
    "stack": stack,
    "transpose": transpose,
    "unstack": unstack,
}
