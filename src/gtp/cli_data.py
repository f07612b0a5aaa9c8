"""`gtp data`: what data there are, what is in them, what is wrong with them, and how to get them."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from gtp.data import catalogue, locate, read_log, text_tables
from gtp.data import write as writing
from gtp.data.download import get as download
from gtp.data.inspect import check as check_file
from gtp.data.inspect import histogram, summary
from gtp.errors import UserError

Spec = Annotated[str, tyro.conf.Positional]
Where = Annotated[Path, tyro.conf.Positional]
Contains = Annotated[str, tyro.conf.Positional]


def main(argv: list[str]) -> int:
    """Run `gtp data ARGV`; 0 on success, 2 where `check` finds something to put right."""
    commands = {
        "list": list_data,
        "show": show,
        "check": check,
        "convert": convert,
        "get": get,
        "make": make,
    }
    return tyro.extras.subcommand_cli_from_dict(commands, prog="gtp data", description=__doc__, args=argv)


def list_data(contains: Contains = "", /) -> int:
    """List the data there are by name: downloadable (get), regenerable (make), and already on this machine.

    Args:
        contains: only names with this in them.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("SPEC", "get", "make", "on this machine"):
        table.add_column(column, justify="right" if column == "get" else "left", no_wrap=column == "SPEC")
    for spec, entry in catalogue.entries().items():
        if contains in spec:
            size = f"{entry.size / 1e6:,.0f} MB" if entry.size else "size unknown"
            present = catalogue.find(spec)
            table.add_row(
                spec,
                size,
                "yes" if entry.can_make else "",
                f"[green]{escape(str(present))}[/]" if present else "",
            )
    if contains in "toy:multigoal":
        table.add_row("toy:multigoal", "built in", "", "")
    console = Console()
    console.print(table)
    console.print(f"\nData folder: {catalogue.data_folder()} (set GTP_DATA to change it)", style="dim")
    console.print("OGBench names take a task: cube-single-play-singletask-task1-v0", style="dim")
    console.print(
        "Also: minari:ID for what Minari downloaded, and paths to your own .npz and .hdf5 files.", style="dim"
    )
    return 0


def show(spec: Spec, /, json: bool = False) -> int:
    """Show what a dataset holds: rows, episodes, ranges, returns, how episodes end, what looks wrong.

    Args:
        spec: d4rl:NAME, minari:ID, ogbench:NAME, toy:NAME, or a path.
        json: print one JSON object instead.
    """
    facts = {"spec": spec} | summary(read_log(spec))
    if json:
        print(json_text.dumps(facts))
    else:
        _print_summary(Console(), facts)
    return 0


def _print_summary(console: Console, facts: dict[str, Any]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column()
    observation, action, reward, length = (
        facts[key] for key in ("observation", "action", "reward", "length")
    )
    shape = " × ".join(str(side) for side in observation["shape"])
    table.add_row("rows", f"{facts['rows']:,} ({facts['transitions']:,} transitions)")
    unfinished = ", the last unfinished" if facts["unfinished"] else ""
    table.add_row("episodes", f"{facts['episodes']:,}{unfinished}; {_spread(length)} rows")
    table.add_row("ends", f"{facts['terminals']:,} terminal, {facts['timeouts']:,} time-out")
    table.add_row("observation", f"{shape} {observation['dtype']} in {_range(observation)}")
    table.add_row("action", f"{action['dimensions']} in {_range(action)}")
    table.add_row("reward", f"{reward['mean']:.4g} on average, in {_range(reward)}")
    table.add_row("return", _spread(facts["return"]))
    table.add_row("environment", escape(facts["env"] or "none known"))
    for key, value in facts["metadata"].items():
        table.add_row(escape(key), escape(value))
    console.print(f"[bold]{escape(facts['spec'])}[/]")
    console.print(table)
    console.print("\n[cyan]episodes by return[/]")
    for line in histogram(facts["return"]["counts"], facts["return"]["edges"]):
        console.print(f"  {line}", highlight=False)
    console.print()
    for note in facts["notes"]:
        console.print(f"[blue]note[/]   {note}", highlight=False)
    _print_doubts(console, facts["suspicions"])


def _print_doubts(console: Console, doubts: list[str]) -> None:
    for doubt in doubts:
        console.print(f"[yellow]doubt[/]  {doubt}", highlight=False)
    if not doubts:
        console.print("[green]Nothing looks wrong.[/]")


def _range(facts: dict[str, Any]) -> str:
    return f"{facts['min']:.4g} … {facts['max']:.4g}"


def _spread(facts: dict[str, Any]) -> str:
    return f"{_range(facts)}, median {facts['50%']:.4g}, mean {facts['mean']:.4g}"


def check(file: Where, /, json: bool = False) -> int:
    """Check a file of your own: every fault in one list, with its row; exit code 2 if there is one.

    Args:
        file: an .npz or .hdf5 with observations, actions, rewards, terminals, and if you like timeouts
            (or truncations) and next_observations.
        json: print one JSON object instead.
    """
    result = check_file(file)
    if json:
        print(json_text.dumps(result))
        return 2 if result["faults"] else 0
    console = Console()
    if not result["faults"]:
        console.print(f"[green]{escape(str(file))}: sound.[/]")
        _print_doubts(console, result["suspicions"])
        return 0
    table = Table(
        box=None, pad_edge=False, header_style="bold", title=escape(str(file)), title_justify="left"
    )
    for column in ("array", "row", "fault"):
        table.add_column(column, justify="right" if column == "row" else "left")
    for fault in result["faults"]:
        row = "" if fault["row"] is None else f"{fault['row']:,}"
        table.add_row(fault["key"], row, escape(fault["text"]))
    console.print(table)
    return 2


def convert(
    source: Spec,
    target: Where,
    /,
    observations: tuple[str, ...] = (),
    actions: tuple[str, ...] = (),
    rewards: str = "",
    terminals: str = "",
    timeouts: str = "",
    episodes: str = "",
) -> int:
    """Convert a dataset to .npz, to D4RL's .hdf5, or to a Minari folder (a path without suffix).

    Args:
        source: any SPEC, or a table (.csv, .tsv) with a line of names at its top; the options are for that.
        target: where to write; nothing is overwritten.
        observations: columns of what was seen; 'sensor_*' stands for all whose names begin so.
        actions: columns of what was done.
        rewards: column of what was received.
        terminals: column that is 1 or true where the episode truly ended.
        timeouts: column that is 1 or true where the episode was only cut.
        episodes: column that stays the same within an episode, such as the number of a recording; where it
            changes an episode was cut, if it did not truly end.
    """
    columns = text_tables.Columns(observations, actions, rewards, terminals, timeouts, episodes)
    if Path(source).suffix.lower() in text_tables.SUFFIXES:
        log = text_tables.read(Path(source), columns)
    elif any(columns):
        raise UserError(f"{source} is no table (.csv, .tsv), and only a table's columns are named.")
    else:
        log = read_log(source)
    writing.write(log, target)
    Console().print(f"[green]{escape(str(target))}[/]")
    return 0


def get(name: Spec, /) -> int:
    """Download an official dataset into the data folder; a download that broke off goes on where it stopped.

    Args:
        name: a SPEC that `gtp data list` shows.
    """
    if catalogue.find(name) is not None:
        Console().print(f"{name} is on this machine: [green]{escape(str(locate(name)))}[/]")
        return 0
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    screen = Console(stderr=True)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task(name, total=None)
        path, verified = download(
            name, lambda done, total: progress.update(task, completed=done, total=total)
        )
    verdict = "SHA-256 verified" if verified else "unverified: no official SHA-256 is known, but it opens"
    Console().print(f"[green]{escape(str(path))}[/] ({verdict})")
    return 0


def make(
    name: Spec,
    /,
    out: Path | None = None,
    policy: tuple[Path, ...] = (),
    steps: int | None = None,
    seed: int = 0,
    workers: int | None = None,
) -> int:
    """Regenerate a dataset by its official protocol, on all cores; going on where an interrupted one stopped.

    Args:
        name: what to make, as `gtp data list` names it.
        out: file or folder to write; by default where the SPEC is looked up, so that `--data NAME` finds it.
        policy: behaviour policy files (.npz, or D4RL's own .hdf5 where it carries one), medium before expert
            where it takes two.
        steps: rows to make; by default as many as the official data have.
        seed: the data are a function of it, whatever the number of workers.
        workers: processes; by default one for each core.
    """
    from gtp import generate

    name = generate.full_name(name)
    target, policies = out or _home(name), list(policy) or None
    written = generate.make(name, target, policy=policies, steps=steps, seed=seed, workers=workers)
    if written.suffix == ".hdf5":
        print(generate.compare(name, written))
    print(written)
    return 0


def _home(name: str) -> Path:
    """Where a made dataset goes if nothing is said: where its SPEC is looked up, in a folder that exists."""
    if name.startswith("toy:"):
        raise UserError(f"{name} is looked up nowhere; say with --out where to write it.")
    home = catalogue.home_of(name)
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"There is no data folder {home.parent} and none can be made: {error}.") from None
    return home
