"""`calc bootlog --save`: what a log printed, as an anchor of the user's catalogue."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from calc.bootlog import BootReport
from calc.bootlog_lines import LogFacts, Printed
from calc.cards import card_of, load_card
from calc.engines import engine_of
from calc.estimates.setup import geometry_of, link_of
from calc.plan import Plan
from calc.units import GIB
from onboard.anchor_checks import NEEDED
from onboard.anchor_file import append_anchor
from onboard.catalog_paths import user_catalog
from onboard.errors import BadAnchor
from onboard.profile import Profile

#: A printed quantity -> the anchor's word for it, and the bytes of its unit.
PRINTED: dict[str, tuple[str, int]] = {
    "weights": ("weights_gib", GIB),
    "kv_available": ("available_gib", GIB),
    "kv_needed": ("needed_gib", GIB),
    "card_total": ("total_gib", GIB),
    "activation": ("activation_peak_gib", GIB),
    "runtime": ("non_torch_gib", GIB),
    "cuda_graphs": ("graph_estimate_gib", GIB),
    "cuda_graphs_taken": ("graph_gib", GIB),
    "kv_tokens": ("kv_tokens", 1),
    "num_blocks": ("num_blocks", 1),
    "max_concurrency": ("max_concurrency", 1),
    "max_model_len_that_fits": ("max_model_len_that_fits", 1),
}
_LEAST = frozenset({"kv_available"})


def save_anchor(catalog: str | None, profile: Profile, report: BootReport, facts: LogFacts, log: str) -> Path:
    """Append the log's anchor and return its file. Raises BadAnchor where the log printed nothing to keep."""
    printed = {word: _figure(p, unit) for name, (word, unit) in PRINTED.items() if (p := _pick(facts, name))}
    if not printed:
        raise BadAnchor("the log printed no figure that an anchor keeps", path="printed", hint="save a boot's own log")
    return append_anchor(user_catalog(catalog), _anchor(profile, report, facts, printed, log))


def _pick(facts: LogFacts, name: str) -> Printed | None:
    return facts.least(name) if name in _LEAST else facts.last(name)


def _figure(printed: Printed, unit: int) -> float | int:
    value = printed.value / unit if unit > 1 else printed.value
    return round(value, 4) if isinstance(value, float) else value


def _anchor(profile: Profile, report: BootReport, facts: LogFacts, printed: dict[str, Any], log: str) -> dict[str, Any]:
    name = Path(log).name
    plan = report.plan
    skipped = ("engine", "card", "vram_gib", "weights_gb", "kv_cache_memory_bytes")
    flags = {k: v for k, v in plan.given().items() if k not in skipped}
    flags.setdefault("tensor_parallel_size", plan.tensor_parallel_size)
    digest = hashlib.sha256(
        repr((profile.id, plan.engine, sorted(printed.items()), sorted(flags.items()))).encode()
    ).hexdigest()[:12]
    version = plan.engine.partition("@")[2]
    numeric = ".".join(part for part in version.split(".") if part.isdigit())
    anchor: dict[str, Any] = {
        "id": f"log-{digest}",
        "thread": f"local-{profile.id}",
        "set": "boots",
        "engine": report.engine,
        "model": profile.id,
        "flags": flags,
        "printed": printed,
        "booted": not report.failed,
        "source": name,
    }
    if numeric:
        anchor["version"] = numeric
        anchor["version_text"] = version
    if plan.card:
        card = load_card(plan.card)
        anchor |= {"card": plan.card, "link": link_of(card.kind, card.nvlink, card.product)}
    if report.engine == "vllm" and profile.fact("vocab_size") and profile.fact("hidden_size"):
        anchor["geometry"] = geometry_of(profile)
    return anchor | {"how": _fill_defaults(profile, plan, report.engine, flags)}


def _fill_defaults(profile: Profile, plan: Plan, engine: str, flags: dict[str, Any]) -> dict[str, str]:
    """Fill flags that the rules read and the log does not print with that version's defaults, and say so of each."""
    missing = [name for name in NEEDED.get(engine, ()) if name not in flags]
    how = dict.fromkeys(missing, "not printed")
    if missing and (plan.card or plan.vram_gib):
        rules, version = engine_of(plan.engine)
        filled = rules.resolve(profile, plan, card_of(plan.card, plan.vram_gib), version).plan
        for name in missing:
            if getattr(filled, name, None) is not None:
                flags[name], how[name] = getattr(filled, name), "defaulted"
    return how
