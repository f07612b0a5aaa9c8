"""Arrays on disk: safetensors beside json, written whole or not at all, never a pickle.

A saved tree is a folder with `arrays.safetensors`, whose names are the paths of the leaves, and `meta.json`,
which carries the format's version. It is written under a temporary name and renamed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from gtp.errors import UserError

FORMAT = 1
ARRAYS, META = "arrays.safetensors", "meta.json"


def names(tree: Any) -> dict[str, Any]:
    """Leaves of a tree by the path that leads to them."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def write_json(path: Path, content: Any) -> None:
    """Write json under a temporary name, then rename."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w") as file:
        json.dump(content, file, indent=2, allow_nan=True)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def save(folder: Path, tree: Any, meta: dict[str, Any]) -> None:
    """Write `tree` and `meta` as `folder`, replacing what was there only once everything is on disk."""
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    save_file({name: np.array(leaf, order="C") for name, leaf in names(tree).items()}, temporary / ARRAYS)
    write_json(temporary / META, {"format": FORMAT} | meta)
    with (temporary / ARRAYS).open("rb") as file:
        os.fsync(file.fileno())
    if folder.exists():
        shutil.rmtree(folder)
    temporary.replace(folder)


def read_meta(folder: Path) -> dict[str, Any]:
    """The meta data of a saved tree."""
    try:
        meta = json.loads((folder / META).read_text())
        version = int(meta["format"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder} is not a whole checkpoint: {META} cannot be read ({error})") from None
    if version > FORMAT:
        raise UserError(
            f"{folder} was written by a newer gtp (format {version}; this one reads up to {FORMAT})"
        )
    return meta


def load(folder: Path, template: Any) -> Any:
    """Read a tree shaped like `template` (arrays or ShapeDtypeStructs)."""
    read_meta(folder)
    try:
        arrays = load_file(folder / ARRAYS)
    except (OSError, SafetensorError, ValueError) as error:
        raise UserError(f"{folder} is not a whole checkpoint: {ARRAYS} cannot be read ({error})") from None
    wanted = names(template)
    if set(wanted) != set(arrays):
        missing = sorted(set(wanted) ^ set(arrays))[0]
        raise UserError(f"{folder} does not fit this agent: {missing} is not in both")
    for name, leaf in wanted.items():
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise UserError(
                f"{folder} does not fit this agent: {name} is {arrays[name].dtype}{arrays[name].shape}, "
                f"not {leaf.dtype}{leaf.shape}"
            )
    _, structure = jax.tree.flatten(template)
    return jax.tree.unflatten(structure, [arrays[name] for name in wanted])


def steps(folder: Path) -> list[int]:
    """Steps of the whole checkpoints in a folder, oldest first."""
    found = [p.name for p in folder.iterdir() if p.is_dir()] if folder.is_dir() else []
    return sorted(int(name) for name in found if re.fullmatch(r"\d+", name))


def prune(folder: Path, keep: int) -> None:
    """Remove all but the newest checkpoints, and what an interrupted writer left behind."""
    for step in steps(folder)[:-keep]:
        shutil.rmtree(folder / f"{step:09d}", ignore_errors=True)
    for rest in folder.glob(".*.tmp"):
        shutil.rmtree(rest, ignore_errors=True)
