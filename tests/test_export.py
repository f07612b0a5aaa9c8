"""Exported files act as `act` does, in runtimes that know nothing of this package."""

import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtp import agents, bench_act, cli, export, graph, logs, nn, policy
from gtp.errors import UserError
from gtp.types import Acting

onnx = pytest.importorskip("onnx", reason="ONNX export needs onnx")
pytest.importorskip("onnxruntime", reason="ONNX files need onnxruntime to run")
from gtp import onnx_graph  # noqa: E402

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = {"hidden": (16, 16), "sampling_steps": 2}
BATCH = jax.export.symbolic_shape("batch")[0]


def small(agent="gtp", shape=(5,), **options):
    """A small policy whose actions are not in [-1, 1]."""
    fields = agents.get(agent).Config.__dataclass_fields__
    pi = policy.arbitrary(agent, shape, 2, **{k: v for k, v in (SMALL | options).items() if k in fields})
    about = pi.about | {"action_low": [-3.0, 1.0], "action_high": [1.0, 2.0], "provenance": "made up"}
    return policy.Policy(
        agents.get(agent).make, agents.get(agent).Config(**from_config(pi)), pi.params, about
    )


def from_config(pi):
    return {k: tuple(v) if isinstance(v, list) else v for k, v in pi.about["config"].items()}


def written(pi, tmp_path, acting=Acting(), format="onnx"):  # noqa: B008
    file = tmp_path / f"policy.{format}"
    return file, export.export(pi, file, format, acting)


def ways(agent):
    """Every rule of GTP; of the others the one with most in it."""
    rules = agents.get(agent).make(agents.get(agent).Config(), 1).rules
    rules = rules if agent == "gtp" else [max(rules, key=["single", "average", "argmax", "softmax"].index)]
    return [Acting(rule, 1 if rule == "single" else 7) for rule in rules]


def drawn(about, batch):
    """Noise as the file's description asks for it; for Gumbel's any other will do."""
    rng = np.random.default_rng(0)
    shapes = [[batch if n == "batch" else n for n in draw["shape"]] for draw in about["noise"].values()]
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.parametrize(
    ("agent", "acting"), [(agent, acting) for agent in agents.NAMES for acting in ways(agent)], ids=str
)
def test_every_agent_and_rule_acts_the_same_from_a_file(agent, acting, tmp_path):
    pi = small(agent)
    file, about = written(pi, tmp_path, acting)
    assert export.difference(pi, file, "onnx", acting) < 1e-5
    obs = np.random.default_rng(1).normal(size=(100, 5)).astype(np.float32)
    action = export.runner(file, "onnx")(obs, *drawn(about, 100))
    assert np.all((action >= [-3, 1]) & (action <= [1, 2]))
    inside = np.mean((action > [-3, 1]) & (action < [1, 2]))
    assert inside > 0.1, "clipped actions are equal whatever the network says"


@pytest.mark.parametrize("acting", [Acting(), Acting("softmax", 7, 3, "ema")], ids=str)
def test_jax_export_acts_the_same(acting, tmp_path):
    pi = small()
    file, _ = written(pi, tmp_path, acting, "jax")
    assert export.difference(pi, file, "jax", acting) < 1e-5
    loaded = jax.export.deserialize(bytearray(file.read_bytes()))
    assert loaded.platforms == export.PLATFORMS


@pytest.mark.parametrize("format", ["onnx", "jax"])
def test_a_file_answers_with_the_actions_to_play_in_order(format, tmp_path):
    """A policy of six numbers, and the same one saying that they are three actions of two."""
    long = policy.arbitrary("gtp", (5,), 6, **SMALL)
    bounds = {"action_low": [-3, 1, -3, 1, -9, 1], "action_high": [1, 2, 1, 2, 9, 2]}
    config = agents.get("gtp").Config(**from_config(long))
    whole, cut = (
        policy.Policy(agents.get("gtp").make, config, long.params, long.about | bounds | shape)
        for shape in ({}, {"action_size": 2, "chunk": 3})
    )
    acting, runs = Acting("softmax", 7), []
    for pi, folder in ((whole, tmp_path / "whole"), (cut, tmp_path / "cut")):
        file, about = written(pi, folder, acting, format)
        assert export.difference(pi, file, format, acting) < 1e-5
        runs.append(export.runner(file, format))
    assert (about["action_size"], about["chunk"]) == (2, 3)
    obs = np.random.default_rng(1).normal(size=(100, 5)).astype(np.float32)
    noise = drawn(about, 100)
    cut_up = runs[0](obs, *noise).reshape(100, 3, 2)
    np.testing.assert_allclose(runs[1](obs, *noise), cut_up, atol=1e-5)


def test_pictures_are_seen_in_a_file(tmp_path):
    pi = small("gtp", (12, 12, 3), sampling_steps=1)
    file, _ = written(pi, tmp_path)
    run = export.runner(file, "onnx")
    obs = np.random.default_rng(0).uniform(0, 255, (3, 12, 12, 3)).astype(np.float32)
    action, noise = graph.with_noise(pi.for_member(Acting(), 0), obs, jax.random.key(0))
    np.testing.assert_allclose(run(obs, *(np.asarray(z[0]) for z in noise)), action, atol=1e-5)


def test_paper_size_fits_2_mb_and_folds_to_few_nodes(tmp_path):
    """K levels, normaliser and biases vanish into weights; Mish is recognised and takes five nodes."""
    pi = policy.arbitrary("gtp", (11,), 3)
    file, about = written(pi, tmp_path)
    model = onnx.load(file)
    kinds = Counter(node.op_type for node in model.graph.node)
    assert kinds["Gemm"] == 1 + 4 * 5
    assert kinds["Sigmoid"] == kinds["Mul"] == kinds["HardSigmoid"] == kinds["Div"] == 3 * 5
    assert len(model.graph.node) <= 1 + 5 * (4 + 3 * 5 + 1) + 3
    assert about["bytes"] == file.stat().st_size < 600_000
    assert model.opset_import[0].version == onnx_graph.OPSET


def test_a_file_says_what_it_is(tmp_path):
    file, _ = written(small(), tmp_path, Acting("softmax", 7, 3))
    props = {p.key: p.value for p in onnx.load(file).metadata_props}
    beside = json.loads((tmp_path / "policy.onnx.json").read_text())
    assert props["agent"] == beside["agent"] == "gtp"
    assert props["provenance"] == beside["provenance"] == "made up"
    assert json.loads(props["sampling_steps"]) == 3
    assert props["opset"] == str(onnx_graph.OPSET)
    assert json.loads(props["noise"]) == {
        "noise0": {"distribution": "normal", "shape": [7, "batch", 2]},
        "noise1": {"distribution": "gumbel", "shape": [7, "batch"]},
    }


def test_nothing_is_overwritten_and_nothing_half_written(tmp_path):
    pi, file = small("bc"), tmp_path / "policy.onnx"
    file.write_text("mine")
    with pytest.raises(UserError, match="exists already"):
        export.export(pi, file, "onnx", Acting())
    assert file.read_text() == "mine"
    with pytest.raises(UserError, match="no member 3"):
        export.export(pi, tmp_path / "other", "onnx", Acting(), member=3)
    with pytest.raises(UserError, match="acts by single"):
        export.export(pi, tmp_path / "other", "onnx", Acting("argmax", 5))
    assert [p.name for p in tmp_path.iterdir()] == ["policy.onnx"]


# The examples, each as a program of its own ----------------------------------------------------------------


def run_example(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    agent, numbers = done.stdout.strip().splitlines()[-1].split(" ", 1)
    action = np.array(json.loads(numbers))
    assert agent == "gtp"
    assert np.all((action >= [-3, 1]) & (action <= [1, 2]))


def test_the_python_example_runs_without_jax(tmp_path):
    file, _ = written(small(), tmp_path, Acting("softmax", 7, 2))
    assert "jax" not in (EXAMPLES / "act_onnx.py").read_text()
    run_example(sys.executable, EXAMPLES / "act_onnx.py", file)


def test_the_jax_example_runs(tmp_path):
    file, _ = written(small(), tmp_path, Acting("softmax", 7, 2), "jax")
    run_example(sys.executable, EXAMPLES / "act_jax.py", file)


def test_the_javascript_example_runs(tmp_path):
    if shutil.which("node") is None:
        pytest.skip("Node is not installed")
    found = subprocess.run(["node", "-e", "require('onnxruntime-node')"], cwd=EXAMPLES, capture_output=True)
    if found.returncode:
        pytest.skip("onnxruntime-node is not installed where Node looks for it")
    file, _ = written(small(), tmp_path, Acting("softmax", 7, 2))
    run_example("node", EXAMPLES / "act_onnx.js", file)


# The graph -------------------------------------------------------------------------------------------------


def loop(obs, key):
    """What a diffusion policy does: noise inside the loop, levels as a scan's input."""

    def step(a, inputs):
        level, key = inputs
        return jnp.tanh(a * jnp.sin(level) + obs) + level * jax.random.normal(key, obs.shape), None

    keys = jax.random.split(key, 3)
    a = jax.random.uniform(keys[0], obs.shape, minval=-2.0, maxval=2.0)
    return jax.lax.scan(step, a, (jnp.arange(2.0), keys[1:]))[0]


def test_noise_inside_a_loop_becomes_inputs():
    obs = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    lifted, draws = graph.lift_noise(loop, jax.ShapeDtypeStruct((BATCH, 3), np.float32), jax.random.key(0))
    # The last step's level 0 … 1: the first draw is scaled by 0, yet it is an input all the same.
    assert [d.distribution for d in draws] == ["uniform", "normal", "normal"]
    action, noise = graph.with_noise(loop, obs, jax.random.key(1))
    np.testing.assert_allclose(action, loop(obs, jax.random.key(1)), atol=1e-6)
    np.testing.assert_allclose(lifted(obs, *noise)[0], action, atol=1e-6)
    assert not {"sin", "scan", "random_bits"} & {e.primitive.name for e in lifted.equations}


def test_unused_noise_is_no_input_and_unknown_noise_is_refused():
    def mean(obs, key):
        return obs + 0 * obs if jax.random.normal(key, obs.shape) is None else jnp.tanh(obs)

    _, draws = graph.lift_noise(mean, np.zeros((1, 2), np.float32), jax.random.key(0))
    assert draws == []
    with pytest.raises(UserError, match="draws random numbers other than"):
        graph.lift_noise(
            lambda obs, key: obs + jax.random.bits(key, obs.shape).astype(float),
            np.zeros((1, 2), np.float32),
            jax.random.key(0),
        )


def converted(function, *args):
    """Run a function's ONNX file on args, the first axis of the first symbolic."""
    import onnxruntime

    specs = [jax.ShapeDtypeStruct((BATCH, *args[0].shape[1:]), np.float32)]
    model = onnx_graph.to_onnx(graph.trace(function, *specs), ["obs"], "action", {})
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"obs": args[0]})[0]


FUNCTIONS = {
    "activations": lambda x: jax.nn.relu(x) + jax.nn.softplus(x) + jax.nn.gelu(x) + jax.nn.silu(x),
    "erf and powers": lambda x: jax.lax.erf(x) + x**3 + (1 + x**2) ** -0.5 + jnp.expm1(x) + jnp.abs(x) ** 1.5,
    "layer norm": lambda x: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5),
    "layer norm of columns": lambda x: (
        nn.centred_and_scaled(x[:, None] * jnp.arange(3.0)[:, None]).sum(1)
        + nn.centred_and_scaled(jnp.stack([x, x**2], 1).swapaxes(1, 2)).swapaxes(1, 2)[:, 0]
    ),
    "a layer norm and its middle": lambda x: (
        (c := x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt((c**2).mean(-1, keepdims=True) + 1e-5) + c
    ),
    "not quite a layer norm": lambda x: (
        (c := x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt((c**4).mean(-1, keepdims=True) + 1e-5)
    ),
    "softmax": lambda x: jax.nn.softmax(3 * x, -1) - jax.nn.logsumexp(x, -1, keepdims=True),
    "a level for each row": lambda x: x @ jnp.ones((4, 4)) * jnp.sin(jnp.full((x.shape[0], 1), 0.3)),
    "pieces": lambda x: jnp.concatenate([x[:, 1:], x[:, :1] * 2, jnp.split(x, 2, -1)[1]], -1)[:, ::2],
    "new axes": lambda x: (
        (x[:, None, :] * jnp.arange(3.0)[None, :, None]).sum(1) + jnp.moveaxis(x[None], 0, 1)[:, 0]
    ),
    "choices": lambda x: (
        jnp.where(x > 0.1, jnp.maximum(x, 0.5), jnp.minimum(-x, 0.2)) * (x.argmax(-1) == 2)[:, None]
    ),
    "attention": lambda x: (
        jnp.einsum("bi,bj->bij", x, x).max(-1) + jnp.einsum("bi,ki->bk", x, jnp.eye(4) * 2)
    ),
    "stacked": lambda x: jnp.stack([x, x + 1, 2 * x])[1] + jnp.stack([x, -x], 1).reshape(-1, 8)[:, :4],
    "an ensemble": lambda x: jax.vmap(lambda w: jnp.tanh(x @ w))(jnp.arange(32.0).reshape(2, 4, 4) / 9).min(
        0
    ),
    "a gradient": lambda x: jax.grad(lambda y: jnp.sum(jnp.tanh(y)[..., 1] * jnp.max(y, -1)))(x),
    "clipped": lambda x: jnp.clip(jax.lax.clamp(-0.5, x, 0.5) * 3 - 1, -1, 1),
    "along an axis": lambda x: jnp.take_along_axis(x, jnp.argmin(-x, -1, keepdims=True), -1) + x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_operations_mean_the_same_in_onnx(name):
    function = FUNCTIONS[name]
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    want = np.asarray(function(jnp.asarray(x)))
    np.testing.assert_allclose(converted(function, x), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(converted(function, x[:1]), want[:1], rtol=1e-5, atol=1e-5)


def test_mish_is_exact_in_onnx_however_large_or_small():
    """Against x·tanh(ln(1 + eˣ)) in double precision."""
    x = np.concatenate([np.linspace(-12, 12, 401), [-1e30, -1e4, -90, -30, 30, 90, 1e4, 1e30]])
    x = x.astype(np.float32)[:, None]
    want = x * np.tanh(np.logaddexp(0, x.astype(np.float64)))
    got = converted(lambda x: nn.mish(x @ jnp.eye(1)), x)
    assert np.all(np.isfinite(got))
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * 12)


def members(x):
    """Three networks, each with weights of its own, on (candidates, rows, size)."""
    rng = np.random.default_rng(0)
    weights = [jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((3, 4, 8), (3, 8, 8), (3, 8, 1))]
    bias = jnp.asarray(rng.normal(size=(3, 8)), jnp.float32)

    def network(first, second, last, bias):
        hidden = nn.mish(jnp.stack([x, 2 * x]) @ first + x @ first + bias)
        return (jax.nn.relu(hidden @ second - bias) * 0.1 @ last)[..., 0]

    return jax.vmap(network)(*weights, bias)


ENSEMBLES = {
    "least": lambda x: members(x).min(0).T,
    "greatest and total": lambda x: members(x).max(0).T * members(x).sum(0).T,
    "one of them": lambda x: members(x)[1].T,
    "compared with each other": lambda x: jax.nn.softmax(members(x), 0)[2].T,
    "spread": lambda x: jnp.moveaxis(members(x), 0, -1).std(-1).T,
}


@pytest.mark.parametrize("name", ENSEMBLES)
def test_members_of_an_ensemble_mean_the_same_in_onnx(name):
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    want = np.asarray(ENSEMBLES[name](jnp.asarray(x)))
    np.testing.assert_allclose(converted(ENSEMBLES[name], x), want, rtol=1e-5, atol=1e-5)


def test_each_critic_has_matrices_of_its_own(tmp_path):
    """A stacked matrix is packed anew at every call, and its bias takes a node; a layer norm is one node."""
    file, _ = written(small(), tmp_path, Acting("argmax", 7))
    body = onnx.load(file).graph
    assert max(len(constant.dims) for constant in body.initializer) == 2
    norms = [node for node in body.node if node.op_type == "LayerNormalization"]
    assert len(norms) == 2 * len(SMALL["hidden"])
    assert not [node for node in body.node if node.op_type in ("ReduceSum", "Sqrt")]


def test_what_onnx_export_does_not_know_is_named():
    with pytest.raises(UserError, match="computes sort"):
        converted(jnp.sort, np.zeros((2, 3), np.float32))


@pytest.fixture
def run(tmp_path):
    """The policy folder of a run with two members."""
    pi = small()
    params = jax.tree.map(lambda x: np.concatenate([x, 2 * x]), pi.params)
    members = [{"seed": 0}, {"seed": 1}]
    policy.save(tmp_path / "run" / "policy", params, pi.about | {"members": members})
    return tmp_path / "run"


def test_the_command(run, tmp_path, capsys):
    file = tmp_path / "policy.onnx"
    command = [
        "export",
        str(run),
        "--out",
        str(file),
        "--act",
        "argmax",
        "--candidates",
        "3",
        "--member",
        "1",
    ]
    assert cli.main(command) == 0
    assert "random observations; draw noise: normal [3, 'batch', 2]" in capsys.readouterr().out
    assert json.loads(Path(f"{file}.json").read_text())["member"] == {"seed": 1}
    assert cli.main(command) == 2


@pytest.mark.parametrize("shape", [(2,), (2, 1)], ids=["one action", "two at once"])
def test_what_bench_act_times_is_the_policy(shape, tmp_path):
    """Both ways to run the file give, for the noise they draw, what `act` gives."""
    pi, acting = small(), Acting("argmax", 3)
    if len(shape) == 2:
        cut = pi.about | {"action_size": 1, "chunk": 2}
        pi = policy.Policy(
            agents.get("gtp").make, agents.get("gtp").Config(**from_config(pi)), pi.params, cut
        )
    assert pi.action_shape == shape
    obs = np.random.default_rng(0).normal(size=5).astype(np.float32)
    calls = bench_act.exported(pi, obs, acting, tmp_path / "policy.onnx")
    lifted, _ = graph.lift_noise(pi.for_member(acting, 0), obs[None], jax.random.key(0))
    rng = np.random.default_rng(0)  # As the two share one.
    for call in calls.values():
        want = lifted(obs[None], rng.standard_normal((3, 1, 2), np.float32))[0][0]
        np.testing.assert_allclose(call(), want, atol=1e-5)


def test_bench_act_times_everybody_in_turn(run, tmp_path, capsys):
    rows = tmp_path / "rows.csv"
    command = ["bench", "act", str(run), "--calls", "40", "--sampling-steps", "2", "--candidates", "1", "3"]
    assert cli.main([*command, "--out", str(rows)]) == 0
    found = logs.read(rows)
    assert {"gtp act", "onnxruntime", "onnxruntime bound", "numpy"} <= {row["policy"] for row in found}
    assert {(row["act"], row["candidates"]) for row in found} == {("single", "1"), ("argmax", "3")}
    for row in found:
        assert 0 < float(row["median_us"]) <= float(row["p95_us"])
        assert row["calls"] == ("40" if row["act"] == "single" else "20")
        assert "jax" in row["versions"]
    assert "median µs" in capsys.readouterr().out
    assert cli.main([*command[:-2], "0"]) == 2
