"""What was learned: constants, spreads and per-model corrections, read from `calibration/fit.json`.

`calc calibration --fit` writes that file from the anchors. `PRIORS` are the values that the mechanisms' sources give;
the fit is drawn toward them, so a constant that few boots speak about stays where its source puts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec import DecodeError
from msgspec.json import decode

from onboard.catalog_paths import shipped, user_catalog
from onboard.errors import BadAnchor
from onboard.values import Struct, field
from onboard.yamlio import read_text

MIN_ANCHORS = 4  # the specification's rule: fewer measured boots are "calibration pending"

# Bytes an element, GiB, or a pure factor; the name says which. Sources stand with the mechanisms that use them.
PRIORS: dict[str, float] = {
    "sampler_sort_bytes": 38.3,
    "sampler_flashinfer_bytes": 14.5,
    "hidden_v0.6_bytes": 6.0,
    "hidden_v0_bytes": 8.0,
    "hidden_v1_bytes": 7.5,
    "moe_forward_factor": 1.7,
    "moe_kept_factor": 1.3,
    "base_gib": 0.01,
}


class Fit(Struct, frozen=True):
    """Everything learned. `spreads` are evenly spaced quantiles of measured minus predicted in GiB, by class of boot,
    then by term. `models` are corrections of the activation by model name; `anchored` counts a profile's anchors,
    with their mean absolute error in bytes.
    """

    constants: Mapping[str, float]
    runtime: Mapping[str, float] = field(default_factory=dict)
    graphs: Mapping[str, float] = field(default_factory=dict)
    spreads: Mapping[str, Mapping[str, Sequence[float]]] = field(default_factory=dict)
    models: Mapping[str, tuple[int, float]] = field(default_factory=dict)  # id -> anchors, GiB added to the activation
    anchored: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)

    def of(self, name: str) -> float:
        return self.constants.get(name, PRIORS[name])


@lru_cache(maxsize=4)
def load_fit(path: Path | None = None) -> Fit:
    """The user's fit where there is one, else the shipped one, else the priors."""
    places = [path] if path else [user_catalog() / "calibration" / "fit.json", shipped("calibration") / "fit.json"]
    for place in places:
        if place.is_file():
            try:
                return fit_from(decode(read_text(place)))
            except (DecodeError, ValueError, TypeError, KeyError, AttributeError):
                hint = "remove it, or write it again with `calc calibration --fit`"
                raise BadAnchor(f"{place} is not a fit", path=str(place), hint=hint) from None
    return Fit(constants=PRIORS)


def calibration_status(model: str) -> dict[str, Any]:
    """The contract's `calibration` of a profile id: calibrated with MIN_ANCHORS boots, else "calibration pending"."""
    anchors, error = load_fit().anchored.get(model, (0, None))
    status = "calibrated" if anchors >= MIN_ANCHORS else "calibration pending"
    return {"status": status, "num_anchors": anchors, "error_bytes": error}


def fit_from(data: Mapping[str, Any]) -> Fit:
    """A Fit from its JSON. Raises ValueError, TypeError, KeyError or AttributeError where it is none."""
    spreads = {c: {t: _numbers(v) for t, v in terms.items()} for c, terms in data.get("spreads", {}).items()}
    return Fit(
        constants={k: _number(v) for k, v in data["constants"].items()},
        runtime={k: _number(v) for k, v in data.get("runtime", {}).items()},
        graphs={k: _number(v) for k, v in data.get("graphs", {}).items()},
        spreads=spreads,
        models={m: (int(v["num_anchors"]), _number(v["activation_gib"])) for m, v in data.get("models", {}).items()},
        anchored={m: (int(v["num_anchors"]), v["error_bytes"]) for m, v in data.get("anchored", {}).items()},
    )


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value):
        raise ValueError(value)
    return float(value)


def _numbers(values: Any) -> tuple[float, ...]:
    """Quantiles: at least two, never falling."""
    found = tuple(_number(v) for v in values)
    if len(found) < 2 or any(b < a for a, b in pairwise(found)):
        raise ValueError(values)
    return found


def fit_to_json(fit: Fit) -> dict[str, Any]:
    """The JSON of a Fit, what `calibration/fit.json` holds."""
    return {
        "constants": dict(fit.constants),
        "runtime": dict(fit.runtime),
        "graphs": dict(fit.graphs),
        "models": {m: {"num_anchors": n, "activation_gib": x} for m, (n, x) in fit.models.items()},
        "anchored": {m: {"num_anchors": n, "error_bytes": e} for m, (n, e) in fit.anchored.items()},
        "spreads": {c: {t: list(v) for t, v in terms.items()} for c, terms in fit.spreads.items()},
    }


def fit_text(fit: Fit) -> str:
    """The text of `calibration/fit.json`: one line a list, so that a new fit is a readable diff."""
    import json

    data = fit_to_json(fit)
    spreads = data.pop("spreads")
    lines = json.dumps(data, indent=1).removesuffix("\n}")
    rows = [
        f"  {json.dumps(name)}: {{\n"
        + ",\n".join(f"   {json.dumps(t)}: {json.dumps(v)}" for t, v in terms.items())
        + "\n  }"
        for name, terms in spreads.items()
    ]
    return lines + ',\n "spreads": {\n' + ",\n".join(rows) + "\n }\n}\n"


def fit_path(catalog: str | None = None) -> Path:
    """Where a new fit is written: the user's catalogue (in a checkout without one: the shipped file)."""
    return user_catalog(catalog) / "calibration" / "fit.json"
