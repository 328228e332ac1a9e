"""Write the shipped profiles: `python tools/ship_profiles.py FOLDER`, FOLDER holding copies of configs as `org__name`.

A shipped profile names the Hub's repository as its source, so that `onboard refresh` asks the Hub on any machine; which
copy was read, and what is known of it, stands in `read_from`. No commit is known of a copy, so `revision` stays empty.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SHIPPED = {
    "qwen3.6-27b": "Qwen/Qwen3.6-27B",
    "qwen3.6-35b-a3b": "Qwen/Qwen3.6-35B-A3B",
    "gemma-4-31b": "google/gemma-4-31B-it",
    "gemma-4-26b-a4b": "google/gemma-4-26B-A4B-it",
}


def main(copies: str) -> None:
    from onboard.onboarding import write
    from onboard.profile import SourceRef
    from onboard.read import read_source
    from onboard.values import replace

    for model_id, repo in SHIPPED.items():
        folder = Path(copies) / repo.replace("/", "__")
        read = read_source(str(folder), model_id)
        source = SourceRef(
            kind="hub",
            name=repo,
            config_sha256=read.source.config_sha256,
            read_from=read.source.read_from,
            location=repo,
        )
        added = write(replace(read, source=source), str(ROOT))
        print(f"{added.path.relative_to(ROOT)}: {len(added.changes)} value(s) changed")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
