"""A program: stagings that die by SIGKILL before their n-th file operation, then go on.

usage: dying_stages.py MODEL WORK STRIDE

One JSON line per n says what lay on the disk after the death and after the next staging.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from dying import dies, fails, report_deaths
from mirror_kit import stage, tree


def die_and_resume(model: Path, target: Path, n: int) -> dict[str, Any]:
    def work() -> None:
        stage(model, target, file_bytes=1 << 17)

    killed = dies(n, work)
    before = tree(target) if target.exists() else {}
    return {"killed": killed, "before": before, "failed": fails(work), "after": tree(target)}


if __name__ == "__main__":
    model, work = Path(sys.argv[1]), Path(sys.argv[2])
    report_deaths(lambda n: die_and_resume(model, work / str(n), n), int(sys.argv[3]))
