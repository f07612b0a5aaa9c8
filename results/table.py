"""Rebuild the tables of the README and of all pages of results from the rows: python results/table.py.

A table stands between `<!-- rows: FOLDER -->`, `<!-- targets -->`, `<!-- headline -->`, `<!-- further -->` or
`<!-- starts -->`, and `<!-- end -->`.
Its numbers are means over seeds, each seed being the mean of its episodes. *last* is the last evaluation, ±
the standard deviation over seeds; *last 3* the mean of the last three evaluations; *best* the best evaluation
of all, the same for all seeds.
"""

import csv
import functools
import re
import statistics
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

Evaluations = dict[int, dict[str, list[float]]]
"""update -> seed -> scores of its episodes."""
Run = list[tuple[str, str]]
"""Folder and settings of each of a run's tasks."""
Line = tuple[list[Run], Run | None, int | None]
"""What a line of the tables of targets shows: runs, students of one of them, and the target, if any."""

HERE = Path(__file__).parent
WAYS = {"single": "one sample", "softmax": "50 candidates"}
RARER = {"argmax": "best of 50", "average": "average of 50", "mean": "plain mean of 50"}
"""Each shown only where a folder has such rows, and only its last evaluation, or tables grow too wide."""
TASKS = ("hopper", "walker2d", "halfcheetah")
HEADLINE = {
    "**GTP**, K = 5": (("gtp_layer_norm eta=5", "gtp_again eta=5", "gtp_other_seeds", "gtp_third"), ("5",)),
    "**GTP**, K = 2": (("gtp_layer_norm eta=5", "gtp_again eta=5"), ("2",)),
    "GTP-BC (η = 0), K = 5": (("gtp_layer_norm eta=0",), ("5",)),
    "Diffusion-QL": (("diffusion_ql",), ("5",)),
    "Consistency-AC": (("consistency_ac",), ("2", "5")),
    "FQL": (("fql",), ("",)),
    "ReBRAC": (("rebrac",), ("",)),
    "IQL": (("iql_standardised", "iql_again"), ("",)),
    "TD3+BC": (("td3_bc",), ("",)),
}
"""A line of the README's second table: all runs of these settings, and K: the first there is."""
USUAL = (300_000, 5)
"""Updates and policies of a cell of that table that says nothing else."""


def one(folder: str, settings: str) -> Run:
    """A run on one task."""
    return [(folder, settings)]


def single_actions(task: int) -> list[Run]:
    """Two runs on a cube task, one action at a time; the first one's critics of task 5 had two expectiles."""
    first = f"task{task}_gtp_n_step10" + " expectile=0.7" * (task == 5)
    return [one("cube-single", first), one("cube-single", f"task{task}_gtp_n_step10_again")]


SINGLE_ACTIONS = [[run for (run,) in runs] for runs in zip(*map(single_actions, range(1, 6)), strict=True)]
"""The same two runs, each on all five tasks."""
CHUNKS = [("cube-chunks", f"task{task}_gtp_chunk5") for task in range(1, 6)]
"""`--preset ours` on all five."""
CUBE_STUDENTS = [("distilled", f"cube-task{task}_students") for task in range(1, 6)]
CHUNK_STUDENTS = [("distilled", f"cube-task{task}_chunk5_student") for task in range(1, 6)]
TARGETS: dict[str, Line] = {
    "hopper-medium": (
        [
            one("medium-300k", "hopper-medium_gtp_again_30 eta=5"),
            one("medium-300k", "hopper-medium_gtp_third_30"),
        ],
        one("distilled", "hopper-medium_students"),
        90,
    ),
    "walker2d-medium": (
        [
            one("medium-300k", "walker2d-medium_gtp_again eta=5"),
            one("medium-300k", "walker2d-medium_gtp_third"),
        ],
        one("distilled", "walker2d-medium_students"),
        89,
    ),
    "halfcheetah-medium": (
        [one("medium-300k", "halfcheetah-medium_gtp_third")],
        one("distilled", "halfcheetah-medium_students"),
        54,
    ),
    "hopper-medium-expert": ([one("medium-expert-500k", "hopper-medium-expert_gtp_30")], None, 112),
    "walker2d-medium-expert": ([one("medium-expert-500k", "walker2d-medium-expert_gtp_30")], None, 114),
    "halfcheetah-medium-expert": (
        [one("medium-expert-500k", "halfcheetah-medium-expert_gtp_rfqi_30")],
        None,
        93,
    ),
    "antmaze-umaze": ([one("discounts", "umaze_gtp_0995")], None, 95),
    "antmaze-medium-play": ([one("discounts", "medium-play_gtp_max_q_0995")], None, 83),
    "antmaze-large-play": ([one("discounts", "large-play_gtp_max_q_0995")], None, None),
    "cube-single, five tasks": ([CHUNKS], CHUNK_STUDENTS, 97),
}
"""A line of the first table of README and results: GTP by its defaults, or by `--preset ours`."""
FURTHER: dict[str, Line] = {
    "hopper-medium, γ = 0.995": ([one("discounts", "hopper-medium_gtp_0995_other_seeds")], None, 90),
    "halfcheetah-medium, an earlier run": (
        [one("medium-300k", "halfcheetah-medium_gtp_again eta=5")],
        None,
        54,
    ),
    "walker2d-medium-expert, η = 1": (
        [one("medium-expert-500k", "walker2d-medium-expert_gtp_weaker_300k eta=1")],
        None,
        114,
    ),
    "antmaze-umaze, γ = 0.99": ([one("antmaze-300k", "umaze_gtp_again_100")], None, 95),
    "antmaze-umaze, max Q backup": ([one("discounts", "umaze_gtp_max_q_0995")], None, 95),
    "antmaze-medium-play, γ = 0.99": ([one("antmaze-300k", "medium-play_gtp_max_q_100")], None, 83),
    "antmaze-large-play, γ = 0.99": ([one("antmaze-300k", "large-play_gtp_max_q_100")], None, None),
    "cube-single, task 1, defaults": ([one("cube-single", "task1_gtp")], None, 97),
    "cube-single, five tasks, one action at a time": (SINGLE_ACTIONS, CUBE_STUDENTS, 97),
    **{
        f"cube-single, task {task}": ([[run]], [student], 97)
        for task, run, student in zip(range(1, 6), CHUNKS, CHUNK_STUDENTS, strict=True)
    },
}
"""A line of the second: other settings than those, and the cube's tasks one by one."""
STARTS = {
    "task 1, IQL": ("task1_iql", "", "single"),
    "task 1, FQL": ("task1_fql", "", "single"),
    "task 1, GTP, one of 50 drawn": ("task1_gtp_expectile095", "5", "softmax"),
    "task 1, GTP, average of 50": ("task1_gtp_expectile095", "5", "average"),
    "task 2, GTP, average of 50": ("task2_gtp_expectile095_batch1024 eta=0.3", "5", "average"),
    "task 3, GTP, average of 50": ("task3_gtp_expectile095", "5", "average"),
    "task 4, GTP, average of 50": ("task4_gtp_expectile095", "5", "average"),
    "task 5, GTP, average of 50": ("task5_gtp_expectile095", "5", "average"),
    "task 5, GTP, one of 50 drawn": ("task5_gtp_expectile095", "5", "softmax"),
    "task 1, GTP with ten steps, one of 50 drawn": ("task1_gtp_n_step10", "5", "softmax"),
    "task 1, GTP with ten steps, average of 50": ("task1_gtp_n_step10", "5", "average"),
    "task 2, GTP with ten steps, average of 50": ("task2_gtp_n_step10", "5", "average"),
    "task 3, GTP with ten steps, average of 50": ("task3_gtp_n_step10", "5", "average"),
    "task 4, GTP with ten steps, average of 50": ("task4_gtp_n_step10", "5", "average"),
    "task 5, GTP with ten steps, average of 50": ("task5_gtp_n_step10 expectile=0.7", "5", "average"),
    "task 5, GTP with ten steps, one of 50 drawn": ("task5_gtp_n_step10 expectile=0.7", "5", "softmax"),
    **{
        f"task {task}, GTP with five actions as one, average of 50": (
            f"task{task}_gtp_chunk5",
            "5",
            "average",
        )
        for task in range(1, 6)
    },
    "task 2, FQL": ("task2_fql", "", "single"),
    "task 3, FQL": ("task3_fql", "", "single"),
    "task 4, FQL": ("task4_fql", "", "single"),
    "task 5, FQL": ("task5_fql", "", "single"),
    "task 5, GTP with expectile 0.9, one drawn": ("task5_gtp_expectiles expectile=0.9", "5", "softmax"),
    "task 5, GTP with expectile 0.7, one drawn": ("task5_gtp_expectiles expectile=0.7", "5", "softmax"),
    "task 5, GTP with expectile 0.5, one drawn": ("task5_gtp_expectiles expectile=0.5", "5", "softmax"),
    "task 5, the same, seeds 2 and 3": ("task5_gtp_expectiles_other_seeds expectile=0.5", "5", "softmax"),
    "task 5, these by temperature 0.3": (
        "task5_gtp_expectiles_other_seeds expectile=0.5 choice_temperature=0.3",
        "5",
        "softmax",
    ),
    "task 1, GTP with expectile 0.7, seeds 2 and 3, average": (
        "task1_gtp_expectiles_other_seeds expectile=0.7",
        "5",
        "average",
    ),
    "task 1, GTP with expectile 0.5, seeds 2 and 3, one drawn": (
        "task1_gtp_expectiles_other_seeds expectile=0.5",
        "5",
        "softmax",
    ),
    "task 1, these by temperature 0.3": (
        "task1_gtp_expectiles_other_seeds expectile=0.5 choice_temperature=0.3",
        "5",
        "softmax",
    ),
    "task 4, GTP-BC after 40,000, average": ("task4_gtp_bc_40k", "5", "average"),
    "task 4, the same on first plans only": ("task4_gtp_bc_40k_first_plans", "5", "average"),
    "task 5, GTP-BC after 40,000, average": ("task5_gtp_bc_40k", "5", "average"),
    "task 5, the same on first plans only": ("task5_gtp_bc_40k_first_plans", "5", "average"),
    "task 5, GTP-BC after 40,000, one drawn": ("task5_gtp_bc_40k", "5", "softmax"),
    "task 5, the same with expectile 0.5, temperature 0.3": ("task5_gtp_bc_40k_expectile05", "5", "softmax"),
}
"""A line of the table of starts: settings in cube-single or cube-chunks, K, and way of acting."""
DISTANCES = (0.0, 0.25, 0.35, 0.45, 1.0)
"""Between which its columns are, in metres from hand to cube."""


def score(row: dict[str, str]) -> float:
    """The normalised score; the success rate, in percent, where there is none."""
    return float(row["normalised_score"]) if row["normalised_score"] else 100 * float(row["success"])


def seed_means(seeds: dict[str, list[float]]) -> list[float]:
    """One number a seed."""
    return [statistics.mean(episodes) for episodes in seeds.values()]


def last(evaluations: Evaluations) -> str:
    """Mean and deviation over seeds of the last evaluation."""
    means = seed_means(evaluations[max(evaluations)])
    spread = f" ± {statistics.stdev(means):.1f}" if len(means) > 1 else ""
    return f"{statistics.mean(means):.1f}{spread}"


def size(evaluations: Evaluations) -> str:
    """Seeds × episodes of the last evaluation."""
    seeds = evaluations[max(evaluations)]
    return f"{len(seeds)} × {len(next(iter(seeds.values())))}"


def last_beside(others: Evaluations, evaluations: Evaluations | None) -> str:
    """The last evaluation, with its size and updates where they are not those of the others in its line."""
    if not evaluations:
        return "–"
    unusual = [size(evaluations)] * (size(evaluations) != size(others))
    unusual += [f"{max(evaluations) // 1000} k"] * (max(evaluations) != max(others))
    return last(evaluations) + (f" ({', '.join(unusual)})" if unusual else "")


def last_three(evaluations: Evaluations) -> str:
    """Mean of the last three evaluations."""
    if len(evaluations) < 3:
        return "–"
    steps = sorted(evaluations)[-3:]
    return f"{statistics.mean(statistics.mean(seed_means(evaluations[step])) for step in steps):.1f}"


def best(evaluations: Evaluations) -> str:
    """The best evaluation, and after how many updates it was."""
    means = {step: statistics.mean(seed_means(seeds)) for step, seeds in evaluations.items()}
    step = max(means, key=lambda step: means[step])
    return f"{means[step]:.1f} ({step // 1000}k)"


@functools.cache
def read(folder: Path) -> dict[tuple[str, str], dict[str, Evaluations]]:
    """(settings, K) -> way of acting -> evaluations, over all files of a folder."""
    table: dict = defaultdict(lambda: defaultdict(lambda: defaultdict(lambda: defaultdict(list))))
    for path in sorted(folder.glob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                settings = " ".join(filter(None, (path.stem, row["variant"])))
                ways = table[settings, row["sampling_steps"]]
                ways[row["act"]][int(row["step"])][row["seed"]].append(score(row))
    return {key: dict(ways) for key, ways in table.items()}


def table(folder: Path) -> str:
    """The table of a folder; with several evaluations, what last, last three and best of them are."""
    rows = read(folder)
    rarer = {way: name for way, name in RARER.items() if any(way in ways for ways in rows.values())}
    longest = max(len(evaluations) for ways in rows.values() for evaluations in ways.values())
    columns = {"": last} if longest == 1 else {": last": last, ", best": best}
    if longest > 2:
        columns = {": last": last, ", last 3": last_three, ", best": best}
    heads = [f"{name}{column}" for name in WAYS.values() for column in columns] + list(rarer.values())
    lines = [["settings", "K", "updates", "seeds × episodes", *heads]]
    lines.append(["---"] * len(lines[0]))
    for (settings, steps), ways in rows.items():
        evaluations = next(iter(ways.values()))
        cells = [column(ways[way]) if way in ways else "–" for way in WAYS for column in columns.values()]
        cells += [last_beside(evaluations, ways.get(way)) for way in rarer]
        lines.append([settings, steps or "–", f"{max(evaluations):,}", size(evaluations), *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def joined(parts: list[Evaluations]) -> Evaluations:
    """Evaluations of several tasks as one: a seed's episodes together."""
    whole: Evaluations = {}
    for step in sorted(set.intersection(*(set(part) for part in parts))):
        whole[step] = defaultdict(list)
        for part in parts:
            for seed, episodes in part[step].items():
                whole[step][seed].extend(episodes)
    return whole


def pooled(parts: dict[str, Evaluations]) -> Evaluations:
    """Evaluations of several runs side by side, without those that ended before the longest."""
    longest = max(max(part) for part in parts.values())
    return {
        step: {
            f"{name} {seed}": episodes
            for name, part in parts.items()
            if max(part) == longest
            for seed, episodes in part.get(step, {}).items()
        }
        for step in sorted(set().union(*parts.values()))
    }


def medium(method: str) -> dict[str, dict[str, Evaluations]]:
    """Task -> way of acting -> evaluations of a line of the README's second table."""
    # What had been run on the hopper before, and counts where it was not run again.
    before = {(f"hopper-medium_{name}", k): v for (name, k), v in read(HERE / "hopper-medium-start").items()}
    rows = before | read(HERE / "medium-300k")
    names, allowed = HEADLINE[method]
    found: dict[str, dict[str, Evaluations]] = {}
    for task in TASKS:
        of_each_k = {name: [rows.get((f"{task}-medium_{name}", k)) for k in allowed] for name in names}
        there = {name: next(filter(None, tried), {}) for name, tried in of_each_k.items()}
        parts = {way: {name: ways[way] for name, ways in there.items() if way in ways} for way in WAYS}
        found[task] = {way: pooled(part) for way, part in parts.items() if part}
    return found


def headline() -> str:
    """The README's second table: methods against tasks, the last evaluation by both ways of acting."""
    lines = [["", *(f"{task}: {way}" for task in TASKS for way in WAYS.values())]]
    lines.append(["---"] * len(lines[0]))
    for method in HEADLINE:
        lines.append([method, *(cell(ways.get(way)) for ways in medium(method).values() for way in WAYS)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def evaluations_of(run: Run, steps: str, way: str) -> Evaluations | None:
    """A run's evaluations by a way of acting, its tasks together; None where a task was not played so."""
    parts = [read(HERE / folder).get((settings, steps), {}).get(way) for folder, settings in run]
    return joined([part for part in parts if part]) if all(parts) else None


def of_line(line: Line) -> dict[str, Evaluations]:
    """Way of acting -> evaluations of all runs of a line, and of their students."""
    runs, students, _ = line
    found = {}
    for way in (*WAYS, *RARER):
        parts = {str(i): evaluations_of(run, "5", way) for i, run in enumerate(runs)}
        there = {name: part for name, part in parts.items() if part}
        if len(there) == len(runs):
            found[way] = pooled(there)
    taught = evaluations_of(students, "", "single") if students else None
    return found | ({"student": taught} if taught else {})


def of_students(evaluations: Evaluations) -> str:
    """Their last evaluation, which says so where there is only one."""
    alone = len(evaluations[max(evaluations)]) == 1
    return last(evaluations) + " (one)" * alone


def beside_targets(lines: dict[str, Line]) -> str:
    """A line a task: GTP's last scores by three ways of acting and its students', beside the target."""
    shown = WAYS | {"average": RARER["average"]}
    head = ["", "updates", "policies × episodes", *shown.values(), "student", "target"]
    cells = [head, ["---"] * len(head)]
    for task, line in lines.items():
        ways, target = of_line(line), line[2]
        evaluations = ways["single"]
        scores = [last_beside(evaluations, ways.get(way)) for way in shown]
        scores.append(of_students(ways["student"]) if "student" in ways else "–")
        aim = "–" if target is None else str(target)
        cells.append([task, f"{max(evaluations):,}", size(evaluations), *scores, aim])
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def targets() -> str:
    """The first table of README and results: GTP on every task by its defaults, or by `--preset ours`."""
    return beside_targets(TARGETS)


def further() -> str:
    """The second: other settings, and the cube's tasks one by one."""
    return beside_targets(FURTHER)


def starts() -> str:
    """How many of the cube's episodes succeed by how far off the hand starts; the oracle's plans first."""
    lines = [["", *(f"{near:g} to {far:g} m" for near, far in pairwise(DISTANCES))]]
    lines.append(["---"] * len(lines[0]))
    with (HERE / "cube-starts" / "oracle.csv").open(newline="") as file:
        plans = list(csv.DictReader(file))
    for name, first in {"the oracle's first plan in an episode": "1", "its later ones": "0"}.items():
        mine = [(float(plan["distance"]), plan["placed"] == "1") for plan in plans if plan["first"] == first]
        lines.append([name, *by_distance(mine)])
    with (HERE / "cube-starts" / "starts.csv").open(newline="") as file:
        apart = {(row["task"], int(row["episode"])): float(row["distance"]) for row in csv.DictReader(file)}
    rows = read(HERE / "cube-single") | read(HERE / "cube-chunks")
    for name, (settings, steps, way) in STARTS.items():
        evaluations = rows[settings, steps][way]
        task = settings.removeprefix("task")[0]
        # A seed's rows stand in the order of its episodes.
        seeds = evaluations[max(evaluations)].values()
        lines.append([name, *by_distance([(apart[task, i], x > 0) for s in seeds for i, x in enumerate(s)])])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def by_distance(found: list[tuple[float, bool]]) -> list[str]:
    """How many succeeded, and of how many, between each two distances."""
    cells = []
    for near, far in pairwise(DISTANCES):
        within = [success for distance, success in found if near <= distance < far]
        cells.append(f"{sum(within)} of {len(within)}" if within else "–")
    return cells


def cell(evaluations: Evaluations | None) -> str:
    """The last evaluation, with its updates and how many were trained where they are not the usual ones."""
    if not evaluations:
        return "–"
    step = max(evaluations)
    seeds = len(evaluations[step])
    unusual = [f"{step // 1000} k"] * (step != USUAL[0]) + [f"{seeds} policies"] * (seeds != USUAL[1])
    return last(evaluations) + (f" ({', '.join(unusual)})" if unusual else "")


def rebuilt(text: str) -> str:
    """The page with every table made anew."""
    for mark, made in (
        ("targets", targets),
        ("headline", headline),
        ("further", further),
        ("starts", starts),
    ):
        text = re.sub(
            rf"(<!-- {mark} -->\n).*?(?=<!-- end -->)",
            lambda match, made=made: f"{match[1]}\n{made()}\n\n",
            text,
            flags=re.DOTALL,
        )
    return re.sub(
        r"(<!-- rows: (\S+) -->\n).*?(?=<!-- end -->)",
        lambda match: f"{match[1]}\n{table(HERE / match[2])}\n\n",
        text,
        flags=re.DOTALL,
    )


def pages() -> list[Path]:
    """The README, and every page of results."""
    return [HERE.parent / "README.md", HERE / "README.md", *sorted(HERE.glob("*/README.md"))]


if __name__ == "__main__":
    for page in pages():
        page.write_text(rebuilt(page.read_text()))
