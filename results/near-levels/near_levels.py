"""Episodes of a trained GTP by `sampling_grid` near: python near_levels.py RUN JUMPS EPISODES ROWS.csv.

Which levels an action passes is no matter of training: the map leads from any level to any lower one. So a
policy trained with Karras' grid is played here as if it had been trained with the other. Rows have the grid
in `variant`.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from gtp import logs, policy
from gtp import run as runs
from gtp.evaluate import Stage


def main() -> None:
    """Appends one row an episode and way of acting to the table."""
    run, jumps, episodes, table = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(Path(run) / "policy", Path(folder) / "policy")) / "meta.json"
        about = json.loads(copy.read_text())
        about["config"]["sampling_grid"] = "near"
        copy.write_text(json.dumps(about))
        pi = policy.load(Path(folder))
    members = len(pi.about["members"])
    ways = [way._replace(sampling_steps=int(jumps)) for way in runs.ways_to_act(pi.rules)]
    with Stage(pi.about["env"], members, int(episodes)) as where:
        rows = runs.score(pi, where, list(range(members)), ways)
    named = [row | {"variant": " ".join(filter(None, (row["variant"], "near")))} for row in rows]
    logs.append(Path(table), named)


if __name__ == "__main__":
    main()
