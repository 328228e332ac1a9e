"""Build the wheel, install it into a clean environment, and run both commands from an empty folder.

Proves that the wheel carries the shipped catalogue and that nothing leans on the checkout.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PREDICT = "calc predict qwen3.6-27b --tp 2 --card rtx-3090 --max-ctx 131072 --kv-format fp8_e5m2"
COMMANDS = (PREDICT, "onboard list", "onboard show gemma-4-31b", "onboard check")


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder / "dist"), str(ROOT)]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        wheel = next((folder / "dist").glob("*.whl"))
        venv.create(folder / "env", with_pip=True)
        binaries = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
        install = [
            str(binaries / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            str(wheel),
        ]
        subprocess.run(install, check=True)
        empty = folder / "empty"
        empty.mkdir()
        for line in COMMANDS:
            program, *arguments = line.split()
            command = [str(binaries / program), *arguments]
            done = subprocess.run(command, cwd=empty, capture_output=True, text=True, check=False)
            print(f"$ {line}\n{done.stdout[-400:]}{done.stderr}")
            if done.returncode:
                print(f"exit code {done.returncode}")
                return 1
        if any(empty.iterdir()):
            print("a command that only reads wrote into the folder it ran in")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
