"""Write onboard/data/class_defaults.json from the installed transformers: `python tools/class_defaults.py [--check]`.

One line a model type, so that a new release reads as a diff. `--check` writes nothing and fails where the file differs.
"""

from __future__ import annotations

import ast
import json
import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any

from onboard.class_reading import describe

TARGET = Path(__file__).resolve().parent.parent / "onboard" / "data" / "class_defaults.json"


def main() -> int:
    text = render()
    if "--check" in sys.argv[1:]:
        same = TARGET.exists() and TARGET.read_text(encoding="utf-8") == text
        print(
            "up to date"
            if same
            else "onboard/data/class_defaults.json is not what the classes say: run this without --check"
        )
        return 0 if same else 1
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    print(f"{len(text.splitlines()) - 3} model types, {len(text)} bytes")
    return 0


def render() -> str:
    """The file's text."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    lines = []
    encoders = _encoders()
    for name in sorted(CONFIG_MAPPING_NAMES):
        entry: dict[str, Any] = describe(CONFIG_MAPPING[name])
        if name in encoders and "text" not in entry and not entry["defaults"].get("is_encoder_decoder"):
            entry["encoder"] = True
        lines.append(f"{json.dumps(name)}: {json.dumps(entry, sort_keys=True)}")
    return f'{{"transformers": "{transformers.__version__}", "model_types": {{\n' + ",\n".join(lines) + "\n}}\n"


def _encoders() -> set[str]:
    """Model types that generate no tokens as they stand: in no generating list, or masked language models that
    decode only when `is_decoder` says so."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    kinds = ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ",
             "TEXT_TO_SPECTROGRAM", "TEXT_TO_WAVEFORM")  # fmt: skip
    lists = _auto_lists()
    generating = {n for kind in kinds for n in lists[f"MODEL_FOR_{kind}_MAPPING_NAMES"] if n in CONFIG_MAPPING_NAMES}
    pending = sorted(generating)
    while pending:  # the text models inside composites generate as well
        text = describe(CONFIG_MAPPING[pending.pop()]).get("text")
        if text and text["model_type"] not in generating and text["model_type"] in CONFIG_MAPPING_NAMES:
            generating.add(text["model_type"])
            pending.append(text["model_type"])
    masked = {
        name for name in lists["MODEL_FOR_MASKED_LM_MAPPING_NAMES"]
        if name in CONFIG_MAPPING_NAMES and "is_decoder" in describe(CONFIG_MAPPING[name])["defaults"]
    }  # fmt: skip
    return (set(CONFIG_MAPPING_NAMES) - generating) | masked


def _auto_lists() -> dict[str, list[str]]:
    """Which model types stand in which of transformers' auto-model lists. Read as text: the module needs torch to
    load.
    """
    import transformers

    source = Path(transformers.__file__).parent / "models" / "auto" / "modeling_auto.py"
    lists: dict[str, list[str]] = {}
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and isinstance(node.targets[0], ast.Name)
            and node.value.args
        ):
            pairs = node.value.args[0]
            if isinstance(pairs, ast.List):
                lists[node.targets[0].id] = [
                    ast.literal_eval(p.elts[0]) for p in pairs.elts if isinstance(p, ast.Tuple)
                ]
    return lists


if __name__ == "__main__":
    sys.exit(main())
