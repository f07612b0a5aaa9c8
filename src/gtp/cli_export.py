"""`gtp export RUN`: a policy in one file that runs without this package."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import tyro

from gtp.types import Acting, Rule


@dataclass(frozen=True)
class Export:
    """Write a policy as one ONNX or jax.export file: normaliser, K steps, critic and bounds inside."""

    out: Path
    """File to write; nothing is overwritten."""
    format: Literal["onnx", "jax"] = "onnx"
    """ONNX for any runtime, or a serialised jax.export; OUT.json says what is in it."""
    sampling_steps: int | None = None
    """K; by default the agent's own."""
    act: Rule = "single"
    """One sample, or what the critic makes of several candidates: draws one, takes the best, averages."""
    candidates: int | None = None
    """Samples the critic sees; 50 by default, 1 for single."""
    weights: Literal["online", "ema"] = "online"
    """The trained actor or its moving average."""
    member: int = 0
    """Whose parameters, counting from 0 in the order `gtp eval` prints; 0 is the first seed."""


def main(argv: list[str]) -> int:
    """`gtp export RUN …`."""
    if not argv or argv[0].startswith("-"):
        tyro.cli(Export, prog="gtp export RUN", args=["--help"])
    options = tyro.cli(Export, prog="gtp export RUN", args=argv[1:])
    from gtp import export, policy

    pi = policy.load(argv[0])
    candidates = options.candidates or (1 if options.act == "single" else 50)
    acting = Acting(options.act, candidates, options.sampling_steps, options.weights)
    about = export.export(pi, options.out, options.format, acting, options.member)
    apart = export.difference(pi, options.out, options.format, acting, options.member)
    said = "not compared with act: onnxruntime is not installed"
    if apart is not None:
        said = f"within {apart:.1e} of act on {export.CHECKED:,} random observations"
    noise = "; ".join(f"{n}: {d['distribution']} {d['shape']}" for n, d in about["noise"].items())
    print(f"{options.out}: {about['bytes'] / 1e6:.2f} MB, {said}; draw {noise or 'nothing'}")
    return 0
