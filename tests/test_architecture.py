"""Who may know whom, read from the imports: the layers of docs/architecture.md."""

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "gtp"
FILES = {
    ".".join(("gtp", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in SOURCE.rglob("*.py")
}


def imports(path):
    """Every module a file imports, anywhere in it; `from gtp import flow` is gtp.flow."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import, which this test does not follow"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in FILES else node.module for name in names}
    return found


def within(module, *packages):
    return any(module == p or module.startswith(p + ".") for p in packages)


def ours(module):
    return {name for name in imports(FILES[module]) if within(name, "gtp")}


GROUND = {
    "gtp.types",
    "gtp.errors",
    "gtp.config",
    "gtp.gaussian",
    "gtp.nn",
    "gtp.starts",
    "gtp.noise",
    "gtp.optim",
    "gtp.leaves",
    "gtp.jumps",
}
MATHS = {"gtp.flow", "gtp.objectives", "gtp.values", "gtp.diffusion", "gtp.actor_critic", "gtp.implicit"}
AGENTS = sorted(m for m in FILES if within(m, "gtp.agents"))
MAY_NAME_AGENTS = (
    "gtp.agents",
    "gtp.presets",
    "gtp.demo",
    "gtp.run",
    "gtp.scoring",
    "gtp.policy",
    "gtp.api",
    "gtp.experiment_cells",
    "gtp.experiment_times",
    "gtp.bench_train",
    "gtp.bench_act",
)


def test_the_reader_of_imports_sees_all_forms(tmp_path):
    file = tmp_path / "x.py"
    file.write_text(
        "import jax.numpy as jnp\nfrom gtp import flow, values\nfrom gtp.types import Array\n"
        "def f():\n    import gtp.cli\n"
    )
    assert imports(file) == {"jax.numpy", "gtp.flow", "gtp.values", "gtp.types", "gtp.cli"}
    assert {"gtp.agents.gtp", "gtp.agents.bc"} <= set(AGENTS)
    assert FILES.keys() >= GROUND | MATHS


@pytest.mark.parametrize("module", sorted(GROUND))
def test_the_ground_knows_only_the_ground(module):
    assert ours(module) <= GROUND


def test_types_and_errors_know_nothing():
    assert not ours("gtp.types")
    assert not ours("gtp.errors")


@pytest.mark.parametrize("module", sorted(MATHS))
def test_the_mathematics_knows_the_ground_and_itself(module):
    assert ours(module) <= GROUND | MATHS


@pytest.mark.parametrize("module", AGENTS)
def test_an_agent_knows_the_mathematics_and_no_other_agent(module):
    if module != "gtp.agents":
        assert ours(module) <= GROUND | MATHS


@pytest.mark.parametrize(
    "module", sorted(m for m in FILES if within(m, "gtp.data", "gtp.envs", "gtp.stats", "gtp.errors"))
)
def test_data_and_environments_are_free_of_jax(module):
    """Not even through another module of ours."""
    seen, queue = set(), [module]
    while queue:
        name = queue.pop()
        seen.add(name)
        for other in imports(FILES[name]):
            assert not within(other, "jax", "jaxlib", "equinox", "optax"), f"{name} imports {other}"
            if other in FILES and other not in seen and not within(other, "gtp.generate"):
                queue.append(other)


@pytest.mark.parametrize(
    "module", sorted(m for m in FILES if not within(m, *MAY_NAME_AGENTS) and "cli" not in m)
)
def test_the_loop_evaluation_checkpoints_and_logs_know_no_agent(module):
    assert not {name for name in ours(module) if within(name, "gtp.agents")}


@pytest.mark.parametrize("module", sorted(m for m in FILES if "cli" not in m and not m.endswith("__main__")))
def test_nothing_below_knows_the_command_line(module):
    assert not {name for name in ours(module) if ".cli" in name}
