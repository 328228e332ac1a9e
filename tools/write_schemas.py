"""Write schema/profile.schema.json and schema/override.schema.json from the records that read those files.

`python tools/write_schemas.py` after adding a layer kind or a profile field; a test compares the files with this.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from onboard.values import NODEFAULT, fields

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from onboard.errors import Caution  # noqa: E402
from onboard.layer_data import CACHE_CLASSES  # noqa: E402
from onboard.profile import Deployment, DrafterRef, SourceRef, TensorGroup, WeightVariant  # noqa: E402
from onboard.profile_yaml import ORIGINS  # noqa: E402

DRAFT = "https://json-schema.org/draft/2020-12/schema"
RANGE = {"type": ["string", "integer"], "description": "layer indices: 0-2, 4-6, or with a step 3-63/4"}
COUNT = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
RUNS = {"type": "array", "items": {"$ref": "#/$defs/run"}}


def closed(properties: dict[str, Any], required: list[str], about: str = "") -> dict[str, Any]:
    """An object of these properties and no others."""
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False, "properties": properties}
    if required:
        schema["required"] = required
    if about:
        schema["description"] = about
    return schema


def of_class(cls: type, **ready: Any) -> dict[str, Any]:
    """The schema of a dataclass: ints, texts, booleans and None by annotation, `ready` for what is nested."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    for one in fields(cls):
        properties[one.name] = ready.get(one.name) or of_type(str(one.type))
        if one.default is NODEFAULT and "None" not in str(one.type):
            required.append(one.name)
    return closed(properties, required, (cls.__doc__ or "").strip().split("\n")[0])


def of_type(annotation: str) -> dict[str, Any]:
    kind = next(
        (v for k, v in {"int": "integer", "str": "string", "bool": "boolean"}.items() if annotation.startswith(k)), None
    )
    if kind is None:  # tuples of numbers or names
        return {"type": "array"}
    if "None" in annotation:
        return {"type": [kind, "null"]}
    return COUNT if kind == "integer" else {"type": kind}


def cache_classes() -> list[type]:
    return sorted(CACHE_CLASSES.values(), key=lambda c: c.__name__)


def profile_schema() -> dict[str, Any]:
    caches = []
    for cls in cache_classes():
        one = of_class(cls)
        one["properties"] = {"type": {"const": cls.__name__}, **one["properties"]}
        one["required"] = ["type", *one.get("required", [])]
        caches.append(one)
    names = [c.__name__ for c in cache_classes()]
    fact = closed(
        {"value": True, "origin": {"enum": list(ORIGINS)}, "where": {"type": "string"}}, ["value", "origin", "where"]
    )
    status = closed(
        {
            "name": {"enum": ["derived", "config-verified", "calibrated"]},
            "num_anchors": COUNT,
            "because": {"type": "string"},
        },
        ["name", "num_anchors", "because"],
    )
    caution = {"type": "array", "items": of_class(Caution)}
    properties = {
        "schema_version": {"const": 1},
        "id": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,127}$"},
        "status": status,
        "source": of_class(SourceRef),
        "model_type": {"type": "string"},
        "architectures": {"type": "array", "items": {"type": "string"}},
        "layers": RUNS,
        "mtp_layers": RUNS,
        "facts": {"type": "object", "additionalProperties": fact},
        "weights": {
            "type": "array",
            "items": of_class(WeightVariant, groups={"type": "array", "items": of_class(TensorGroup, layers=RANGE)}),
        },
        "default_weights": {"type": "string"},
        "drafters": {"type": "array", "items": of_class(DrafterRef, layers=RUNS)},
        "deployments": {"type": "array", "items": of_class(Deployment, options={"type": "object"})},
        "warnings": caution,
        "unknowns": caution,
        "notes": {"description": "free text by people; kept by every rewrite", "type": ["string", "array"]},
        "seal": {"description": "digests of generated values; written by `onboard add`", "type": "string"},
    }
    required = ["schema_version", "id", "source", "model_type", "architectures", "layers", "facts"]
    # picked by `type`, so that an error names the field and not every other class
    cache = {
        "type": "object",
        "required": ["type"],
        "properties": {"type": {"enum": names}},
        "allOf": [
            {"if": {"properties": {"type": {"const": name}}}, "then": one}
            for name, one in zip(names, caches, strict=True)
        ],
    }
    run = closed(
        {"indices": RANGE, "caches": {"type": "array", "items": {"$ref": "#/$defs/cache"}}}, ["indices", "caches"]
    )
    return {
        "$schema": DRAFT,
        "title": "A model profile",
        **closed(properties, required),
        "$defs": {"run": run, "cache": cache},
    }


def override_schema() -> dict[str, Any]:
    entry = closed(
        {
            "path": {
                "type": "string",
                "minLength": 1,
                "description": "facts.NAME, layers.KIND.FIELD, layers[0-5].FIELD, weights.NAME ...",
            },
            "was": {"description": "the generated value this replaces; null where there is none"},
            "to": {"description": "the value that takes effect; null removes"},
            "why": {"type": "string", "minLength": 1},
            "link": {"type": "string"},
        },
        ["path", "was", "to", "why"],
    )
    properties = {"model": {"type": "string"}, "overrides": {"type": "array", "items": entry}}
    return {"$schema": DRAFT, "title": "Overrides of one model", **closed(properties, ["model", "overrides"])}


def text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1) + "\n"


SCHEMAS = {"profile.schema.json": profile_schema, "override.schema.json": override_schema}


if __name__ == "__main__":
    for name, build in SCHEMAS.items():
        (ROOT / "schema" / name).write_text(text(build()), encoding="utf-8")
