"""How long `calc predict` of a catalogued model takes to start, against a click program that does nothing.

Whole processes, alternating, medians of 15; prints both and their ratio. The bar is 2.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BARE = "import click\n@click.command()\ndef main(): pass\nmain()"
LINE = "calc predict qwen3.6-27b --tp 2 --card rtx-3090 --max-ctx 131072"
PREDICT = f"import sys; sys.argv = {LINE!r}.split(); from calc.cli import main; main()"
RUNS = 15


ENVIRONMENT = {
    k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"
}  # an installed tool has its bytecode


def seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return time.perf_counter() - start


def main() -> None:
    for code in (BARE, PREDICT):
        seconds(code)  # warm the parse cache and the disk
    pairs = [(seconds(BARE), seconds(PREDICT)) for _ in range(RUNS)]
    bare, predict = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"bare click program {bare * 1000:.0f} ms, calc predict {predict * 1000:.0f} ms, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
