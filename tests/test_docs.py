"""What README and the docs tell people to type, typed; and the numbers they state, computed again."""

import ast
import dataclasses
import importlib.util
import re
import shlex
import types
from pathlib import Path

import pytest

from gtp import agents, cli, plan

ROOT = Path(__file__).parents[1]
PAGES = sorted(f"docs/{p.relative_to(ROOT / 'docs')}" for p in (ROOT / "docs").rglob("*.md"))
RESULTS = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "results").rglob("README.md"))


def blocks(page: str, section: str = "") -> list[tuple[str, str]]:
    text = (ROOT / page).read_text()
    if section:
        text = text.split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", text, re.S)


def follow(page: str, section: str = "") -> None:
    """Do what a page says, from top to bottom; of a thousand updates twenty are enough to see it work."""
    for language, code in blocks(page, section):
        if language == "python":
            exec(compile(code, page, "exec"), {})
        else:
            for line in code.replace("--steps 1000 ", "--steps 20 ").strip().splitlines():
                assert cli.main(shlex.split(line, comments=True)[1:]) == 0, line


@pytest.mark.usefixtures("optimised")
def test_the_60_second_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    follow("README.md", "Your own data, in 60 seconds")
    numbers = [float(x) for x in re.findall(r"-?\d+\.?\d*", capsys.readouterr().out.splitlines()[-1])]
    assert len(numbers) == 1
    assert -15 < numbers[0] < 15


@pytest.mark.usefixtures("optimised")
def test_the_page_on_your_own_data_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    follow("docs/own-data.md")
    one, chosen = map(float, capsys.readouterr().out.splitlines()[-1].split())
    assert -15 < one < 15
    assert -15 < chosen < 15
    assert "Actions in plant" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_the_page_on_run_directories_runs_and_names_every_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    follow("docs/run-directory.md")
    text = (ROOT / "docs/run-directory.md").read_text()
    for path in (tmp_path / "runs" / "walk").iterdir():
        assert f"`{path.name}" in text
    columns = (tmp_path / "runs" / "walk" / "eval.csv").read_text().splitlines()[0].split(",")
    assert not [name for name in columns if f"`{name}`" not in text]
    assert "bc" in capsys.readouterr().out
    assert (tmp_path / "walk-report" / "index.html").is_file()


def check_command(words: list[str]) -> None:
    """That a command names what there is: verb, agent, settings."""
    assert words[1] in cli.VERBS
    if words[1] != "train" or len(words) < 3:
        return
    config = agents.get(words[2]).Config
    known = {f.name for f in dataclasses.fields(plan.Settings)} | {"out", "preset", "resume", "help"}
    known |= {f"agent.{f.name}" for f in dataclasses.fields(config)}
    given = {word[2:].split("=")[0].replace("-", "_") for word in words[3:] if word.startswith("--")}
    assert given <= known, given - known


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_the_commands_a_page_names_exist(page):
    for language, code in blocks(page):
        for line in code.strip().splitlines() if language == "bash" else ():
            words = shlex.split(line, comments=True)
            if words[:1] == ["make"]:
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
            elif words[:1] == ["gtp"]:
                check_command(words)
            elif words[:1] == ["python"]:
                assert (ROOT / words[1]).is_file()


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *PAGES, *RESULTS])
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


SCRIPTS = sorted(
    str(p.relative_to(ROOT)) for part in ("docs", "examples", "results") for p in (ROOT / part).rglob("*.py")
)


@pytest.mark.parametrize("script", SCRIPTS)
def test_scripts_import_what_there_is(script):
    """They are run by hand and seldom, so a name that moved would not be missed."""
    nodes, modules = list(ast.walk(ast.parse((ROOT / script).read_text()))), {}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "gtp":
            module = importlib.import_module(str(node.module))
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
                modules[name.asname or name.name] = getattr(module, name.name)
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found = modules.get(node.value.id)
            assert not isinstance(found, types.ModuleType) or hasattr(found, node.attr), ast.unparse(node)


def evidence():
    spec = importlib.util.spec_from_file_location("evidence", ROOT / "docs" / "evidence" / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_on_the_paper_shows_the_committed_tables():
    make = evidence()
    page = make.PAGE.read_text()
    for name in make.TABLES:
        assert f"<!-- {name} -->" in page
        assert make.placed(page, name, make.read(name)) == page


@pytest.mark.parametrize(
    "name", ["theorem", "fixed_points", "sampling_levels", "best_of", "last_and_best", "candidates"]
)
def test_the_committed_tables_are_what_the_script_computes(name):
    make = evidence()
    assert make.TABLES[name]() == make.read(name)


def test_the_theorems_table_shows_what_the_page_says():
    """The distance does not depend on h, and is in proportion to t − u; the bias is of second order in it."""
    rows = evidence().read("theorem")
    size = {(r["u"], r["solver steps"]): float(r["E|solver − surrogate|"]) for r in rows}
    bias = {(r["u"], r["solver steps"]): float(r["bias of its mean, per unit of a_t"]) for r in rows}
    for u in ("0.5", "0.9", "0.99"):
        assert size[u, "1000"] == pytest.approx(size[u, "1"], rel=0.02)
    assert size["0.9", "1000"] / size["0.99", "1000"] == pytest.approx(10, rel=0.05)
    assert bias["0.9", "1000"] / bias["0.99", "1000"] == pytest.approx(100, rel=0.1)
