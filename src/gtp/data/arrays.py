"""Named arrays out of files nobody has vetted: nothing is unpickled, no link followed, no memory flooded."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from gtp.errors import UserError

HDF5_SUFFIXES = (".hdf5", ".h5")
METADATA = "gtp_metadata"
DEEPEST = 6
"""Groups inside groups that are looked into; a group may contain itself."""
ALWAYS_ALLOWED = 2**30
"""Bytes any file may unpack to."""
MOST_INFLATION = 200
"""Above that, how many times its own size a file may unpack to."""


def allowed_bytes(path: Path) -> int:
    """What the arrays of a file may take in memory.

    That is never more than a third of what the machine has: observations and next observations come on top.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(memory // 3, max(ALWAYS_ALLOWED, MOST_INFLATION * path.stat().st_size))


def read_arrays(path: Path, keys: Iterable[str]) -> dict[str, np.ndarray]:
    """Those of `keys` that the file has, as arrays of plain numbers.

    Raises:
        UserError: where the file cannot be opened, or one of these arrays cannot be read safely.
    """
    if not path.is_file():
        raise UserError(f"{path}: there is no such file.")
    read = {".npz": _read_npz, **dict.fromkeys(HDF5_SUFFIXES, _read_hdf5)}.get(path.suffix.lower())
    if read is None:
        raise UserError(
            f"{path}: a data file is named .npz, .hdf5 or .h5; 'gtp data convert' makes one of a table."
        )
    with damaged(path):
        return read(path, list(keys))


def array_names(path: Path) -> list[str]:
    """The names on the top level of a file, without a look at what they stand for."""
    with damaged(path):
        if path.suffix.lower() in HDF5_SUFFIXES:
            with h5py.File(path, "r") as file:
                return list(file)
        with zipfile.ZipFile(path) as archive:
            return [name.removesuffix(".npy") for name in archive.namelist()]


@contextmanager
def damaged(path: Path) -> Generator[None]:
    """Turn whatever the zip, numpy and HDF5 readers stumble over into one sentence."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{path}: the file is damaged or not what its name says ({brief(error)}).") from error


def read_metadata(path: Path) -> dict[str, str]:
    """What our own generators wrote about a file: JSON in the attribute, or the npz array, `gtp_metadata`."""
    with damaged(path):
        text = _hdf5_metadata(path) if path.suffix.lower() in HDF5_SUFFIXES else _npz_metadata(path)
        metadata = json.loads(text or "{}")
        if not isinstance(metadata, dict):
            raise UserError(f"{path}: {METADATA} is not a JSON object.")
        return {str(key): str(value) for key, value in metadata.items()}


def _hdf5_metadata(path: Path) -> bytes:
    with h5py.File(path, "r") as file:
        if METADATA not in file.attrs:
            return b""
        attribute = file.attrs.get_id(METADATA)
        # Text of variable length lies in a heap; in a damaged one the HDF5 library goes round for ever.
        if attribute.dtype.kind != "S":
            raise UserError(
                f"{path}: {METADATA} is not text of fixed length; write it as numpy.bytes_(text)."
            )
        return bytes(file.attrs[METADATA])


def _npz_metadata(path: Path) -> bytes:
    array = read_arrays(path, [METADATA]).get(METADATA)
    if array is None:
        return b""
    return str(array.item()).encode() if array.dtype.kind == "U" else array.tobytes()


def brief(error: object) -> str:
    """The first line of an exception's text, short enough for one sentence."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:120].rstrip(". ")


def _read_npz(path: Path, keys: list[str]) -> dict[str, np.ndarray]:
    with zipfile.ZipFile(path) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        wanted = [key for key in keys if key in members]
        check_total(path, sum(members[key].file_size for key in wanted))
        return {key: _read_npy(path, archive, members[key], key) for key in wanted}


def _read_npy(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, key: str) -> np.ndarray:
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:
            raise UserError(f"{path}: {key} is written in npy format {version}, which is not supported.")
        shape, column_major, dtype = readers[version](stream)
        _check_numbers(path, key, dtype)
        # Python integers do not overflow, so an absurd shape cannot pass as a small one.
        count = 1
        for side in shape:
            if side < 0:
                raise UserError(f"{path}: {key} declares the impossible shape {shape}.")
            count *= side
        if stream.tell() + count * dtype.itemsize != info.file_size:
            raise UserError(
                f"{path}: {key} declares shape {shape} of {dtype}, but holds {info.file_size:,} bytes."
            )
        flat = np.empty(count, dtype)
        raw = flat.view(np.uint8)
        done = 0
        # The read past the end, which must be empty, makes zipfile compare the checksum.
        while part := stream.read(2**20):
            if done + len(part) > len(raw):
                raise UserError(f"{path}: {key} is longer than it declares.")
            raw[done : done + len(part)] = np.frombuffer(part, np.uint8)
            done += len(part)
        if done < len(raw):
            raise UserError(f"{path}: {key} ends after {done:,} of {len(raw):,} bytes.")
    return flat.reshape(shape[::-1]).T if column_major else flat.reshape(shape)


def _read_hdf5(path: Path, keys: list[str]) -> dict[str, np.ndarray]:
    with h5py.File(path, "r") as file:
        found = {key: node for key in keys if (node := hdf5_dataset(path, file, key)) is not None}
        check_total(path, sum(node.size * node.dtype.itemsize for node in found.values()))
        return {key: np.asarray(node[()]) for key, node in found.items()}


def hdf5_node(path: Path, file: h5py.Group, key: str) -> Any | None:
    """The group or dataset at `key`, or None; links to elsewhere are refused, not followed."""
    node: Any = file
    for part in key.split("/"):
        # Kitchen's `infos` is an array where other files have a group.
        link = node.get(part, getlink=True) if isinstance(node, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise UserError(f"{path}: {key} is a link to somewhere else, which is not followed.")
        node = node[part]
    return node


def hdf5_dataset(path: Path, file: h5py.Group, key: str) -> Any | None:
    """The array at `key`, or None; refuses what would read another file or unpack objects."""
    node = hdf5_node(path, file, key)
    if node is None:
        return None
    if not isinstance(node, h5py.Dataset) or node.shape is None:
        raise UserError(f"{path}: {key} is not an array.")
    if node.external or node.is_virtual:
        raise UserError(f"{path}: {key} keeps its values in another file, which is not followed.")
    _check_numbers(path, key, node.dtype)
    return node


def hdf5_leaves(path: Path, file: h5py.Group, key: str) -> list[str]:
    """What to put behind `key` to name its arrays: nothing, or the sorted paths of the leaves of a group."""
    if key.count("/") > DEEPEST:
        raise UserError(f"{path}: {key} is nested too deeply.")
    node = hdf5_node(path, file, key)
    if node is None:
        return []
    if not isinstance(node, h5py.Group):
        return [""]
    children = sorted(node, key=lambda name: (len(name), name) if name.startswith("_index_") else (0, name))
    return [f"/{child}{leaf}" for child in children for leaf in hdf5_leaves(path, file, f"{key}/{child}")]


def _check_numbers(path: Path, key: str, dtype: np.dtype) -> None:
    if dtype.kind not in "biuf" and not (key == METADATA and dtype.kind == "U"):
        raise UserError(f"{path}: {key} holds {dtype}, not numbers.")


def check_total(path: Path, declared: int) -> None:
    """Refuse arrays that declare more bytes than the file may unpack to, before any of them is read."""
    allowed = allowed_bytes(path)
    if declared > allowed:
        raise UserError(
            f"{path}: the arrays would take {declared:,} bytes in memory, more than the {allowed:,} "
            f"allowed for a file of {path.stat().st_size:,} bytes on this machine."
        )
