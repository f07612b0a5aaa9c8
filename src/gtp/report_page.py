"""The report as one html page that needs nothing else: no script, no font, no picture from elsewhere."""

from __future__ import annotations

import json
import os
from importlib import resources
from string import Template
from typing import Any

import gtp
from gtp import stats
from gtp.report_charts import escape, fixed
from gtp.report_figures import comparison, curves, sampling_steps, swept
from gtp.report_inside import SHORT, costs, offline, policies, training
from gtp.report_lines import Report, published_beside
from gtp.report_policy import Looks
from gtp.report_scores import dot, episodes_per_seed, scores
from gtp.report_sources import short_names

WORDS = {
    "last": "each seed's last evaluation, the mean of its episodes; then mean and standard deviation (n − 1) "
    "over seeds.",
    "mean of last 3": "the same with each seed's last three evaluations averaged, or all if there are fewer.",
    "best": "each seed's highest evaluation. It is chosen by looking at the scores themselves, so it is too "
    "high by construction; it equals “last” where there was one evaluation.",
    "normalised score": "100 · (return − random) / (expert − random), with D4RL's reference returns.",
    "IQM": "interquartile mean: the mean of the middle half of the seeds.",
    "95 % interval": "percentile bootstrap over seeds (within tasks), 2,000 resamples, fixed seed. It is too "
    "narrow with few seeds: with three seeds of one task it covers the truth in about three of four cases.",
    "one sample": "the policy's action as drawn; its only one, or its mean, where the agent acts so.",
    "softmax of N": "N actions drawn, one of them chosen at random with odds exp Q of the target critic; "
    "argmax takes the highest Q, average weights all by exp Q and acts by their mean. Each is another policy "
    "than one sample.",
    "published": "as printed by the source named in the title. Environment, physics, data, acting rule and "
    "choice of checkpoint behind it are the source's, and often not said.",
}
"""What the words in the tables mean."""


def page(report: Report, looks: Looks) -> str:
    """The whole page."""
    sections = [
        ("scores", "Scores", scores(report)),
        ("comparison", "Comparison", comparison(report)),
        ("curves", "Learning curves", curves(report)),
        ("steps", "Sampling steps K", sampling_steps(report)),
        ("swept", "Swept numbers", swept(report)),
        ("costs", "Times", costs(report)),
        ("training", "Training", training(report)),
        ("offline", "Scores without an environment", offline(report)),
        ("policies", "What the policies do", policies(report, looks)),
        ("meaning", "What each number is", meaning(report)),
        ("settings", "Run configurations", settings(report)),
        ("rows", "Rows", rows(report)),
    ]
    present = [(anchor, name, body) for anchor, name, body in sections if body]
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in present)
    body = header(report) + f"<nav>{links}</nav>" + glance(report)
    body += "".join(f'<section id="{a}"><h2>{name}</h2>{text}</section>' for a, name, text in present)
    body += f"<footer>Made by gtp {escape(gtp.__version__)}, {escape(report.made)}.</footer>"
    template = Template((resources.files("gtp") / "report.html").read_text())
    return template.substitute(title=escape(report.title), body=body)


def header(report: Report) -> str:
    """Title, and how much there is."""
    lines = report.lines
    episodes = sum(line.all_rows for line in lines)
    seeds = max((len(line.episodes) for line in lines), default=0)
    facts: dict[str, Any] = {
        "tasks": len(report.tasks),
        "methods": len(set(report.labels.values())),
        "most seeds": seeds,
        "episodes": f"{episodes:,}",
    }
    lead = (
        "Every number comes from rows of single episodes. Rest the pointer on one to see which, or follow it "
        "to their file."
    )
    if all(source.times for source in report.sources):
        facts = {"measurements": sum(len(source.rows) for source in report.sources)}
        lead = (
            "Every number is a measurement, with the file it stands in behind it. There are no scores here."
        )
    cells = "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts.items())
    return f'<h1>{escape(report.title)}</h1><p class="lead">{lead}</p><dl class="facts">{cells}</dl>'


def glance(report: Report) -> str:
    """The highest last score of every task, never without what it is."""
    cards = []
    for task in report.tasks:
        line = max(report.of(task), key=lambda x: x.last().mean())
        last, three, best = (stats.summary(x) for x in (line.last(), line.last_three(), line.best()))
        theirs = "; ".join(f"{s.text()} ({s.kind}, {s.source})" for s in published_beside(report, line))
        unit = "normalised score" if line.metric == "normalised_score" else "return"
        each, digits = episodes_per_seed(line), report.digits(task)
        over = f"± {fixed(last.std, digits)} over {last.count} seeds" if last.count > 1 else "one seed"
        cards.append(
            f'<div class="card"><div class="eyebrow">{escape(task.name)}: highest last {unit}</div>'
            f'<div class="who">{dot(report, line)}{escape(line.label)}</div>'
            f'<div class="big">{fixed(last.mean, digits)} '
            f"<small>{over}</small></div>"
            f"<p>{escape(line.way.text())}, {each} at update {max(line.last_steps):,}. "
            f"Mean of last three evaluations {fixed(three.mean, digits)}, "
            f"best {fixed(best.mean, digits)}.</p>"
            + (f"<p>Published: {escape(theirs)}.</p>" if theirs else "")
            + "</div>"
        )
    if not cards and all(source.times for source in report.sources):
        return ""
    if not cards:
        return '<p class="note">There are no episodes here: no environment, or no evaluation yet.</p>'
    return f'<div class="glance">{"".join(cards)}</div>'


def meaning(report: Report) -> str:
    """A plain statement of what is measured, and how."""
    if not report.lines:
        return ""
    items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in WORDS.items())
    text = f'<dl class="plain">{items}</dl>'
    for task in report.tasks:
        lines = report.of(task)
        provenance = next(iter(lines[0].rows()))["provenance"] or "provenance not recorded in these rows"
        steps = sorted({s for line in lines for s in line.last_steps})
        seeds = sorted({len(line.episodes) for line in lines})
        facts = {
            "data": f"{task.data}; {provenance}; fingerprint {task.fingerprint[:16] or 'not recorded'}",
            "environment": f"{task.env}, physics {task.physics}",
            "acting": "; ".join(sorted({line.way.text() for line in lines})),
            "weights": ", ".join(sorted({line.way.weights for line in lines})),
            "seeds": " or ".join(map(str, seeds)),
            "evaluations": " or ".join(map(str, sorted({line.evaluations for line in lines}))) + " a seed",
            "updates": ", ".join(f"{s:,}" for s in steps),
            "episodes": " or ".join(sorted({episodes_per_seed(line) for line in lines}))
            + " at the last evaluation",
        }
        items = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items())
        text += f'<h3>{escape(task.name)}</h3><dl class="plain">{items}</dl>'
    return text


def settings(report: Report) -> str:
    """How runs differ, then each in full."""
    runs = [source for source in report.sources if source.config is not None]
    if not runs:
        return ""
    names = short_names(runs)
    flat = [_flat(source.config or {}) for source in runs]
    keys = dict.fromkeys(k for f in flat for k in f)
    differing = [k for k in keys if len({f.get(k) for f in flat}) > 1]
    text = ""
    if len(runs) > 1 and differing:
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(
            f'<tr><td class="l mono">{escape(k)}</td>'
            + "".join(f"<td>{escape(f.get(k, '–'))}</td>" for f in flat)
            + "</tr>"
            for k in differing
        )
        text += (
            f"<details{' open' if len(differing) <= SHORT else ''}>"
            f"<summary>{len(differing)} setting{'s'[: len(differing) > 1]} in which the {len(runs)} runs "
            "differ</summary>"
            f'<div class="scroll"><table><thead><tr><th class="l">setting</th>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table></div></details>"
        )
    for name, source in zip(names, runs, strict=True):
        whole = json.dumps(source.config, indent=2, ensure_ascii=False)
        fold = f"<pre>{escape(whole)}</pre>"
        text += f"<details><summary>{escape(name)}: config.json</summary>{fold}</details>"
    return text


def _flat(config: dict[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as `settings.steps`; members and metadata are not settings."""
    found: dict[str, str] = {}
    for key, value in config.items():
        if key in ("members", "metadata", "sweep"):
            continue
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            found[prefix + key] = text if len(text) <= 40 else f"{text[:37]}…"
    return found


def rows(report: Report) -> str:
    """The files behind every number."""
    body, names = "", short_names(report.sources)
    for place, source in enumerate(report.sources):
        path = os.path.abspath(source.file)
        kind = "measurement" if source.times else "episode"
        body += (
            f'<tr id="rows-{place}"><td class="l">{escape(names[place])}</td>'
            f'<td class="l wrap mono"><a href="{escape("file://" + path)}">{escape(source.file)}</a></td>'
            f'<td>{len(source.rows):,}</td><td class="l">{kind}</td>'
            f'<td class="l mono" title="{escape(source.sha256)}">{escape(source.sha256[:16] or "–")}</td>'
            "</tr>"
        )
    head = (
        '<th class="l">source</th><th class="l">file</th><th>rows</th><th class="l">one row is</th>'
        '<th class="l">SHA-256</th>'
    )
    return (
        '<p class="soft">One row is one episode (or one measurement). All rows used are also in '
        '<a href="rows.csv">rows.csv</a>, the tables in <a href="report.csv">report.csv</a>, '
        '<a href="report.md">report.md</a> and <a href="report.tex">report.tex</a>.</p>'
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
