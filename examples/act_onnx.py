"""Act with an exported policy: `python act_onnx.py policy.onnx`, with numpy and onnxruntime alone."""

import json
import sys

import numpy as np
import onnxruntime

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
options.enable_mem_reuse = False  # Faster for a policy this small.
policy = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
about = policy.get_modelmeta().custom_metadata_map
rng = np.random.default_rng(0)
draw = {"normal": rng.standard_normal, "gumbel": lambda n: rng.gumbel(size=n), "uniform": rng.random}

obs = np.zeros((1, *json.loads(about["obs_shape"])), np.float32)
feed = {"obs": obs}
for name, noise in json.loads(about["noise"]).items():
    shape = [len(obs) if n == "batch" else n for n in noise["shape"]]
    feed[name] = draw[noise["distribution"]](shape).astype(np.float32)
(action,) = policy.run(["action"], feed)
print(about["agent"], action[0].tolist())
