"""What README tells people to type, typed."""

import re
import shlex
from pathlib import Path

import pytest

from gtp import cli

ROOT = Path(__file__).parents[1]


def blocks(section: str) -> list[tuple[str, str]]:
    text = (ROOT / "README.md").read_text().split(f"## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"```(\w+)\n(.*?)```", text, re.S)


def test_the_60_second_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for language, code in blocks("Your own data, in 60 seconds"):
        if language == "python":
            exec(compile(code, "README.md", "exec"), {})
        else:
            for line in code.strip().splitlines():
                assert cli.main(shlex.split(line)[1:]) == 0, line
    numbers = [float(x) for x in re.findall(r"-?\d+\.?\d*", capsys.readouterr().out.splitlines()[-1])]
    assert len(numbers) == 1
    assert -15 < numbers[0] < 15


def test_the_commands_readme_names_exist(capsys):
    for section in ("Two commands", "Benchmarks"):
        for _, code in blocks(section):
            for line in code.strip().splitlines():
                words = shlex.split(line, comments=True)
                if words[0] == "make":
                    assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
                else:
                    assert words[1] in cli.VERBS


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target
