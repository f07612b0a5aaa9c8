"""Act with a policy exported for JAX: `python act_jax.py policy.jax`, on CPU or CUDA."""

import json
import sys
from pathlib import Path

import jax
import jax.export
import numpy as np

file = Path(sys.argv[1])
policy = jax.jit(jax.export.deserialize(bytearray(file.read_bytes())).call)
about = json.loads(Path(f"{file}.json").read_text())
draw = {"normal": jax.random.normal, "gumbel": jax.random.gumbel, "uniform": jax.random.uniform}

obs = np.zeros((1, *about["obs_shape"]), np.float32)
noise = []
for i, one in enumerate(about["noise"].values()):
    shape = tuple(len(obs) if n == "batch" else n for n in one["shape"])
    noise.append(draw[one["distribution"]](jax.random.fold_in(jax.random.key(0), i), shape))
action = policy(obs, *noise)
print(about["agent"], action[0].tolist())
