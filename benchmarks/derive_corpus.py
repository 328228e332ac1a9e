"""Seconds to derive every config of a corpus in one process, and the share of it that weights by rule take.

`python benchmarks/derive_corpus.py [FOLDER] [--profile]`; FOLDER holds one folder a model with its config.json. The bar
for the 216 configs of the shared corpus is 5 seconds of processor time.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from pathlib import Path

from onboard import rawjson
from onboard.derive import derive
from onboard.errors import Refusal
from onboard.profile import SourceRef

CORPUS = Path(__file__).resolve().parent.parent.parent / "shared/corpus"


def derive_all(folder: Path) -> tuple[int, float, float]:
    """Configs derived, processor seconds for all, and for the slowest."""
    configs = [(p.parent.name, rawjson.load_mapping(p.read_bytes(), p.name)) for p in folder.glob("*/config.json")]
    total = slowest = 0.0
    for name, config in configs:
        start = time.process_time()
        try:
            derive(config, model_id=name, source=SourceRef(kind="file", name=name))
        except Refusal as refusal:
            print(f"{name}: refused ({refusal.message})")
        took = time.process_time() - start
        total, slowest = total + took, max(slowest, took)
    return len(configs), total, slowest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=CORPUS)
    parser.add_argument("--profile", action="store_true", help="Print where the time goes.")
    options = parser.parse_args()
    profiler = cProfile.Profile()
    if options.profile:
        profiler.enable()
    count, total, slowest = derive_all(options.folder)
    profiler.disable()
    print(f"{count} configs derived in {total:.2f} s of processor time, the slowest in {1000 * slowest:.0f} ms")
    if options.profile:
        pstats.Stats(profiler).sort_stats("cumulative").print_stats(30)


if __name__ == "__main__":
    main()
