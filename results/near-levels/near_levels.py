"""Episodes of a trained GTP by `sampling_grid` near: python near_levels.py RUN JUMPS EPISODES ROWS.csv.

The map leads from any level to any lower one, so a policy trained with Karras' grid can be played by other
levels. Training with them would differ, for they make the TD target and V too. `variant` has the grid.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from gtp import logs, policy, scoring
from gtp.evaluate import Stage


def main() -> None:
    """Appends one row an episode and way of acting to the table."""
    run, jumps, episodes, table = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        meta = Path(shutil.copytree(Path(run) / "policy", Path(folder) / "policy")) / "meta.json"
        about = json.loads(meta.read_text())
        about["config"]["sampling_grid"] = "near"
        meta.write_text(json.dumps(about))
        pi = policy.load(Path(folder))
    members = len(pi.about["members"])
    ways = [way._replace(sampling_steps=int(jumps)) for way in scoring.ways_to_act(pi.rules)]
    with Stage(pi.about["env"], members, int(episodes)) as where:
        rows = scoring.score(pi, where, list(range(members)), ways)
    named = [row | {"variant": " ".join(filter(None, (row["variant"], "near")))} for row in rows]
    logs.append(Path(table), named)


if __name__ == "__main__":
    main()
