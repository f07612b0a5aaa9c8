"""What onnxruntime takes for the matrix products of an action alone, beside the whole file and `policy.act`.

    python results/speed/onnx_products.py > results/speed/onnx-products-cpu.csv

The products alone are the exported file with every Mish left out: a bound on what its form can gain.
"""

import csv
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx

from gtp import bench_act, export, policy
from gtp.types import Acting

STEPS, CALLS = 5, 2000


def without_mish(file: Path) -> Path:
    """The file with each Mish's input in place of its result, that is u for u − u/((1 + s²)/2)."""
    model = onnx.load(file)
    made = {node.output[0]: node for node in model.graph.node}
    same = {}
    for node in model.graph.node:
        if node.op_type == "Sub" and node.input[1] in made and made[node.input[1]].op_type == "Div":
            same[node.output[0]] = node.input[0]
    for node in model.graph.node:
        node.input[:] = [same.get(name, name) for name in node.input]
    kept = [node for node in model.graph.node if node.op_type in ("Gemm", "Add", "Max", "Min")]
    kept += [node for node in model.graph.node if node.op_type == "Sub" and node.output[0] not in same]
    kept.sort(key=list(model.graph.node).index)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    onnx.save(model, file.with_suffix(".products.onnx"))
    return file.with_suffix(".products.onnx")


def main() -> None:
    """Rows to standard output."""
    pi, acting = policy.arbitrary("gtp", (11,), 3), Acting(sampling_steps=STEPS)
    obs = np.random.default_rng(0).normal(size=11).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder, bench_act.one_core():
        file = Path(folder) / "policy.onnx"
        calls = {"gtp act": lambda: pi.act(obs, acting), **bench_act.exported(pi, obs, acting, file)}
        products = export.runner(without_mish(file), "onnx")
        assert products is not None
        rng = np.random.default_rng(0)
        calls["onnxruntime, products alone"] = lambda: products(
            obs[None], rng.standard_normal((1, 3), np.float32)
        )[0]
        times = bench_act.take_turns(calls, CALLS)
    rows = csv.writer(sys.stdout)
    rows.writerow(["policy", "sampling_steps", "median_us", "p10_us", "calls", "device", "versions"])
    for name, seconds in times.items():
        median, early = (round(float(np.percentile(seconds, q)) * 1e6, 1) for q in (50, 10))
        rows.writerow([name, STEPS, median, early, CALLS, bench_act.processor(), bench_act.versions()])


if __name__ == "__main__":
    main()
