"""vLLM's public boots against the predictor: docs/boots.md, one line a row.

`python tools/boots.py --evidence ../shared/evidence/boot_logs.yml --corpus ../shared/corpus --write docs/boots.md`.
Inputs that a row does not print stand in tests/data/vllm/boot_inputs.json, and the report names them. No constant is
fitted: a row counts where every figure lies within what the rounding of its printed memory allows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from calc.bootlog_lines import Printed
from calc.plan import Plan
from calc.predict import predict
from calc.prediction import Prediction
from calc.units import GIB
from onboard.derive import derive
from onboard.layers import FullAttention, LatentAttention, Layer
from onboard.open import inspect
from onboard.profile import DrafterRef, Profile, SourceRef
from onboard.values import replace

INPUTS = Path(__file__).parent.parent / "tests" / "data" / "vllm" / "boot_inputs.json"
FORMATS = {"auto(bf16)": "auto", "auto(fp16)": "auto", "fp8 (fp8_ds_mla)": "fp8_ds_mla"}


@dataclass(frozen=True)
class Checked:
    """A row's figures: (name, printed, low, high, agrees). `missing` says why there are none."""

    id: str
    model: str
    engine: str
    figures: tuple[tuple[str, float, float, float, bool], ...] = ()
    missing: str = ""
    inferred: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        return bool(self.figures) and all(f[-1] for f in self.figures)


def check_row(row: Mapping[str, Any], given: Mapping[str, Any], corpus: Path) -> Checked:
    """The row's printed figures beside predictions at both ends of the printed memory's rounding."""
    head = {"id": row["id"], "model": row["model"], "engine": given.get("engine", row["engine"])}
    if given.get("missing"):
        return Checked(**head, missing=given["missing"])
    profile = profile_of(given, corpus)
    plan = plan_of(row, given, profile)
    profile = with_drafter(profile, given)
    answers = [predict(profile, one) for one in pools(row, plan, profile)]
    figures = tuple(_figures(row["logged"], answers))
    return Checked(**head, figures=figures, inferred=tuple(given.get("inferred", ())))


def profile_of(given: Mapping[str, Any], corpus: Path) -> Profile:
    """The model: a corpus folder, a config in the inputs, or the bare geometry that the row states."""
    if "config" in given:
        return inspect(str(corpus / given["config"]))
    source = SourceRef(kind="file", name="boot row")
    if "inline" in given:
        return derive(given["inline"], model_id="row", source=source)
    kind, (count, first, second) = next(iter(given["geometry"].items()))
    cache = (
        FullAttention(num_kv_heads=first, k_dim=second, v_dim=second)
        if kind == "heads"
        else LatentAttention(latent_dim=first, rope_dim=second)
    )
    return Profile(
        id="row", source=source, model_type="", architectures=(), layers=(Layer((cache,)),) * count, facts={}
    )


def with_drafter(profile: Profile, given: Mapping[str, Any]) -> Profile:
    draft = given.get("draft")
    if not draft:
        return profile
    count, heads, dim = draft["heads"]
    layer = Layer((FullAttention(num_kv_heads=heads, k_dim=dim, v_dim=dim),))
    ref = DrafterRef(name="draft", method=draft["method"], num_bytes=1, layers=(layer,) * count)
    return replace(profile, drafters=(*profile.drafters, ref))


def plan_of(row: Mapping[str, Any], given: Mapping[str, Any], profile: Profile) -> Plan:
    """The row's flags, with what the inputs add."""
    draft = given.get("draft")
    speculative = given["k"] if "k" in given else (draft or {}).get("k")
    if speculative is None and "n=" in str(row.get("spec", "")):
        speculative = int(str(row["spec"]).split("n=")[1].split()[0])
    dtype = str(row.get("kv_dtype", "auto"))
    return Plan(
        engine=f"vllm@{given['engine']}",
        card=_card(row),
        vram_gib=None if _card(row) else float(row.get("vram_gib") or 24),
        weights_gb=1,
        tensor_parallel_size=int(row.get("tp", 1)),
        pipeline_parallel_size=int(row.get("pp", 1)),
        decode_context_parallel_size=int(row.get("dcp", 1)),
        max_model_len=given.get("length") or row.get("max_model_len"),
        max_num_seqs=row.get("max_num_seqs"),
        max_num_batched_tokens=given.get("batched") or row.get("max_num_batched_tokens"),
        kv_cache_dtype=given.get("kv") or FORMATS.get(dtype, dtype),
        enable_prefix_caching=given.get("prefix"),
        enforce_eager=bool(row.get("enforce_eager", False)),
        num_speculative_tokens=speculative,
        drafter="draft" if draft else ("mtp" if speculative and profile.mtp_layers else None),
    )


def _card(row: Mapping[str, Any]) -> str | None:
    """The card's name where its generation decides a default."""
    text = str(row.get("gpu", ""))
    names = {
        "3090": "rtx-3090",
        "4090": "rtx-4090",
        "5090": "rtx-5090",
        "GB10": "dgx-spark",
        "PRO 6000": "rtx-pro-6000",
        "H100": "h100-80gb",
        "H200": "h200-141gb",
        "A100 80": "a100-80gb",
        "A100 40": "a100-40gb",
    }
    return next((card for word, card in names.items() if word in text), None)


def pools(row: Mapping[str, Any], plan: Plan, profile: Profile) -> list[Plan]:
    """The plan at the printed memory, and at both ends of its rounding to two decimals.

    Where no memory is printed, the whole number of blocks that comes nearest to the printed tokens.
    """
    printed = row["logged"].get("avail_gib")
    if printed is None:
        return [replace(plan, kv_cache_memory_bytes=_whole_blocks(row, plan, profile))]
    return [replace(plan, kv_cache_memory_bytes=round((printed + d) * GIB)) for d in (0.0, -0.005, 0.005)]


def _whole_blocks(row: Mapping[str, Any], plan: Plan, profile: Profile) -> int:
    tokens = row["logged"].get("tokens")
    if tokens is None:
        return 0
    pool = predict(profile, replace(plan, kv_cache_memory_bytes=2**40)).cache.pool
    claimed, length = sum(g.num_blocks_per_request for g in pool.groups), plan.max_model_len or 1
    nearest = round(tokens * claimed / length)
    return nearest * int(pool.extra["bytes_per_block"])


def _figures(logged: Mapping[str, Any], answers: list[Prediction]) -> Any:
    sized = "avail_gib" in logged or "tokens" in logged
    wanted = (
        ("tokens", 0.0, lambda p: p.cache.pool.tokens, sized),
        ("conc", 0.005, lambda p: p.cache.pool.max_concurrency, sized),
        ("gpu_blocks", 0.0, lambda p: p.cache.pool.num_blocks, sized),
        ("need_gib", 0.005, lambda p: p.cache.pool.extra["needed_bytes"] / GIB, True),
        ("est_max_len", 0.0, lambda p: p.cache.max_model_len_that_fits, sized),
        ("block_size", 0.0, lambda p: p.cache.pool.extra.get("attention_block_size", p.cache.pool.block_size), True),
        ("mamba_pad_pct", 0.005, lambda p: p.cache.pool.extra.get("state_padding_percent", 0.0), True),
    )
    for name, half, value, known in wanted:
        if name not in logged or not known:
            continue
        values = [value(p) for p in answers]
        printed = Printed(0, name, float(logged[name]), half)
        low, high = min(values), max(values)
        yield name, float(logged[name]), low, high, printed.holds(low, high)


def report(rows: list[Checked]) -> str:
    """The page: what agrees, what differs, what a row lacks."""
    good = sum(r.agrees for r in rows)
    differ, lack = sum(bool(r.figures) and not r.agrees for r in rows), sum(bool(r.missing) for r in rows)
    lines = [
        "# vLLM's public boots",
        "",
        f"Written by `tools/boots.py`. {len(rows)} rows; {good} agree in every figure within the rounding of the",
        f"printed memory, {differ} differ, {lack} lack an input. Nothing is fitted. Where a row prints no memory its",
        "tokens must come from a whole number of blocks, to the token (one chance in some thousands).",
        "",
        "| row | model | rules of | figures (printed; predicted range) | result |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        shown = "; ".join(
            f"{n} {_n(p)} ({_n(a)} to {_n(b)})" if a != b else f"{n} {_n(p)} ({_n(a)})" for n, p, a, b, _ in row.figures
        )
        result = (
            "agrees"
            if row.agrees
            else f"lacks: {row.missing}"
            if row.missing
            else "differs: " + ", ".join(f[0] for f in row.figures if not f[-1])
        )
        if row.inferred:
            result += f" (not printed, inferred: {', '.join(row.inferred)})"
        lines.append(f"| {row.id} | {row.model} | {row.engine} | {shown or '-'} | {result} |")
    return "\n".join(lines) + "\n"


def _n(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.3f}"


def load_rows(evidence: Path) -> list[dict[str, Any]]:
    from onboard.yamlio import load_text

    return [r for r in load_text(evidence.read_text(encoding="utf-8"), evidence.name)["rows"] if r["kind"] == "vllm"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--evidence", type=Path, required=True)
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    args = parser.parse_args()
    inputs = json.loads(INPUTS.read_text(encoding="utf-8"))
    rows = [
        check_row(r, inputs.get(r["id"], {"missing": "no inputs listed"}), args.corpus)
        for r in load_rows(args.evidence)
    ]
    text = report(rows)
    if args.write:
        args.write.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
