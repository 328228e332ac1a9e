"""Evidence rows -> anchor files: `python tools/import_anchors.py ../shared/evidence calibration`.

Writes one file a project under `calibration/<engine>/`, and one for single public logs. Only what was printed and the
flags are kept; figures that a row
derives (residuals, differences) are left out. Run once when evidence grows; the files stand alone.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.specification_flags import (
    CARDS,
    FLAGS,
    HOW,
    NOTES,
    PATCHED,
    PEAK_MIB,
    PRINTED,
    SAME_CHECKPOINT,
    SAME_CHECKPOINT_HOW,
    VERSIONS,
    WEIGHTS_HOW,
)

CARD_NAMES = (
    ("GB10", "dgx-spark"),
    ("Strix Halo", "strix-halo-128gb"),
    ("8060S", "strix-halo-128gb"),
    ("H100 NVL", "h100-nvl-94gb"),
    ("H100", "h100-80gb"),
    ("H200", "h200-141gb"),
    ("A100 40", "a100-40gb"),
    ("A100 80", "a100-80gb"),
    ("B300", "b300-288gb"),
    ("H20 141", "h20-141gb"),
    ("RTX 3090", "rtx-3090"),
    ("RTX 4090", "rtx-4090"),
    ("RTX 5090", "rtx-5090"),
    ("RTX PRO 6000", "rtx-pro-6000"),
    ("L40S", "l40s"),
    ("L4 24", "l4"),
    ("T4 16", "t4"),
    ("V100 32", "v100-32gb"),
    ("V100 16", "v100-16gb"),
    ("A6000", "rtx-a6000"),
    ("MI300X", "mi300x-192gb"),
    ("MI50", "mi50-32gb"),
    ("W7900", "w7900"),
    ("7900 XTX", "rx-7900-xtx"),
    ("2080 Ti", "rtx-2080-ti-22gb"),
    ("RTX 2060 12", "rtx-2060-12gb"),
    ("4070 laptop", "rtx-4070-laptop"),
    ("Arc Pro B70", "arc-pro-b70"),
)
ROCM = ("ROCm", "Strix", "MI300", "MI50", "W7900", "7900 XTX")
NVLINK = ("H100", "H200", "A100", "B300", "H20", "80GB", "96GB class")
IDS = (  # evidence's words -> the catalogue's id; the words stay in `model_text`
    (r"^gemma-4-31b|gemma-4-31B AutoRound", "gemma-4-31b"),
    (r"gemma-4-31B-it$", "gemma-4-31b"),
    (r"gemma-4-26[Bb]-[Aa]4[Bb](-it)?$", "gemma-4-26b-a4b"),
    (r"^[Qq]wen3\.6-27[Bb]|Qwen/Qwen3\.6-27B", "qwen3.6-27b"),
    (r"^[Qq]wen3\.6-35[Bb]-[Aa]3[Bb]|Qwen/Qwen3\.6-35B-A3B", "qwen3.6-35b-a3b"),
)
NIGHTLIES = {  # image tags of nightly builds -> the release that each precedes, by date
    "1acd67a7": "0.20.2",
    "e47c98ef": "0.20.2",
    "bf610c2f": "0.21.0",
    "01d4d1ad": "0.20.1",
    "gemma4-unified": "0.22.0",
}
COMPOSED = ("max_num_batched_tokens", "dtype", "enable_prefix_caching", "disable_custom_all_reduce")
OWN_FILE = 5  # a project with fewer boots shares one file with the single logs
GEOMETRY = (  # widths of models that the evidence names without them: published configs
    (r"Llama-3(\.1)?-8B|Meta-Llama-3", {"hidden": 4096, "intermediate": 14336, "vocab": 128256, "layers": 32}),
    (r"Llama-3\.2-3B", {"hidden": 3072, "intermediate": 8192, "vocab": 128256, "layers": 28}),
    (r"Qwen3-14B", {"hidden": 5120, "intermediate": 17408, "vocab": 151936, "layers": 40}),
    (r"Qwen3-8B", {"hidden": 4096, "intermediate": 12288, "vocab": 151936, "layers": 36}),
    (r"Qwen3-4B", {"hidden": 2560, "intermediate": 9728, "vocab": 151936, "layers": 36}),
    (r"Qwen2\.5-0\.5B", {"hidden": 896, "intermediate": 4864, "vocab": 151936, "layers": 24}),
    (
        r"Qwen3-235B",
        {"hidden": 4096, "vocab": 151936, "layers": 94, "experts": 128, "topk": 8, "moe_intermediate": 1536},
    ),
    (
        r"[Qq]wen3\.[568](-architecture)?[- ]27[bB]",
        {
            "hidden": 5120,
            "intermediate": 17408,
            "vocab": 248320,
            "layers": 64,
            "delta": [48, 128, 128],
            "states": True,
            "encoder": "qwen3.5",
        },
    ),
    (
        r"[Qq]wen3\.[568]-35[bB]",
        {
            "hidden": 2048,
            "vocab": 248320,
            "layers": 40,
            "experts": 256,
            "topk": 8,
            "moe_intermediate": 512,
            "delta": [32, 128, 128],
            "states": True,
            "encoder": "qwen3.5",
        },
    ),
    (r"gemma-4-31[bB]", {"hidden": 5376, "intermediate": 21504, "vocab": 262144, "layers": 60, "encoder": "gemma-4"}),
    (
        r"gemma-4-26[bB]",
        {
            "hidden": 2816,
            "vocab": 262144,
            "layers": 30,
            "experts": 128,
            "topk": 8,
            "moe_intermediate": 704,
            "encoder": "gemma-4",
        },
    ),
    (r"gemma-4-12[bB]", {"hidden": 3840, "intermediate": 15360, "vocab": 262144, "layers": 48, "encoder": "gemma-4"}),
    (r"gemma-3-27b", {"hidden": 5376, "intermediate": 21504, "vocab": 262208, "layers": 62, "encoder": "gemma-3"}),
    (r"gemma-3-12b", {"encoder": "gemma-3"}),
    (
        r"GLM-5\.1",
        {
            "hidden": 6144,
            "vocab": 154880,
            "layers": 78,
            "experts": 256,
            "topk": 8,
            "moe_intermediate": 2048,
            "latent": True,
            "sparse": True,
        },
    ),
    (
        r"MiniMax-M2\.5",
        {"hidden": 3072, "vocab": 200064, "layers": 62, "experts": 256, "topk": 8, "moe_intermediate": 1536},
    ),
    (
        r"gpt-oss-120b",
        {"hidden": 2880, "vocab": 201088, "layers": 36, "experts": 128, "topk": 4, "moe_intermediate": 2880},
    ),
    (r"Qwen3-Next-80B", {"delta": [32, 128, 128], "states": True}),
    (r"DeepSeek-(V2|V3|R1$|R1 )|DeepSeek-Coder-V2", {"latent": True}),
    (r"Qwen3-VL-30B", {"encoder": "qwen3-vl"}),
    (r"Qwen2(\.5)?-VL-7B|typhoon-ocr|Qwen2\.5-VL-3B", {"encoder": "qwen2-vl"}),
    (r"Mistral-Small-3\.2", {"encoder": "mistral-small"}),
    (r"opt-|phi-2", {"gated": False}),
    (r"Embedding", {"pooling": True}),
)
DRAFTERS = {
    "gemma-it-assistant": "assistant",
    "gemma-26b-it-assistant": "assistant",
    "gemma-12b-it-assistant": "assistant",
    "gemma-dflash": "dflash",
    "zlab-qwen-dflash": "dflash",
    "qwen-mtp-builtin": "mtp",
}


def slug(thread: str) -> str:
    name = re.sub(r"^(github:|github\.com/|https?://)", "", thread).rpartition("/")[2]
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def card_of(gpu: str) -> str | None:
    return next((name for words, name in CARD_NAMES if words in gpu), None)


def link_of(gpu: str, engine: str, unified: bool) -> str:
    if unified or "GB10" in gpu or "unified" in gpu or "Strix" in gpu:
        return "unified"
    if "ROCm" in engine or any(w in gpu for w in ROCM):
        return "rocm"
    return "nvlink" if any(w in gpu for w in NVLINK) and "NVL" not in gpu else "pcie"


def clean(data: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in data.items() if v is not None}


def version_of(text: str) -> str | None:
    found = re.search(r"(\d+\.\d+)(?![\dx])(?:\.(\d+))?", text.replace("vllm-v", " "))
    return None if found is None else found.group(1) + (f".{found.group(2)}" if found.group(2) else "")


def activation_row(row: dict[str, Any]) -> dict[str, Any]:
    engine = row["engine"]
    name = "sglang" if engine.startswith("sglang") else "vllm"
    gpu = row.get("gpu", "")
    derived = "activation = peak_torch" in row.get("note", "")
    peak = re.search(r"peak_torch ([\d.]+)", row.get("note", ""))
    weights = row.get("weights_gib", row.get("load_gib"))
    version = version_of(engine)
    flags = clean(
        {
            "tensor_parallel_size": row.get("tp", 1),
            "pipeline_parallel_size": row.get("pp"),
            "max_model_len": row.get("max_model_len"),
            "max_num_seqs": row.get("max_num_seqs"),
            "max_num_batched_tokens": row.get("max_num_batched_tokens"),
            "gpu_memory_utilization": row.get("util"),
            "kv_cache_dtype": row.get("kv_dtype"),
            "enforce_eager": row.get("enforce_eager"),
            "enable_chunked_prefill": row.get("chunked_prefill"),
            "enable_expert_parallel": row.get("ep") or ("expert sharding" in row.get("note", "") or None),
            "enable_lora": row.get("lora"),
            "speculative": row.get("spec"),
            "cudagraph_max_capture": row.get("cudagraph_max_capture") or row.get("graph_max_bs"),
            "sampler": {"flashinfer (implied by the size)": "flashinfer", "none (pooling)": "none"}.get(
                row.get("sampler", "")
            ),
            "chunked_prefill_size": row.get("chunked_prefill_size"),
            "max_running_requests": row.get("max_running_requests"),
            "cuda_graph_estimate": row.get("graph_estimate_subtracted"),
        }
    )
    how = clean(
        {
            "max_num_seqs": row.get("max_num_seqs_src"),
            "max_num_batched_tokens": row.get("max_num_batched_tokens_src"),
            "total_gib": "inferred" if row.get("total_inferred") else None,
            "model": "inferred" if row.get("model_inferred") else None,
            "sampler": "implied by the size" if row.get("sampler", "").startswith("flashinfer") else None,
        }
    )
    printed = clean(
        {
            "total_gib": row.get("total_gib"),
            "weights_gib": weights,
            "activation_peak_gib": None if derived else row.get("activation_peak_gib"),
            "peak_torch_gib": float(peak.group(1)) if derived and peak else None,
            "non_torch_gib": row.get("non_torch_gib"),
            "available_gib": row.get("available_gib"),
            "graph_gib": row.get("graph_gib"),
            "graph_estimate_gib": row.get("graph_estimate_gib"),
            "consumed_gib": row.get("consumed_gib"),
            "kv_pool_gb": row.get("kv_pool_gb"),
            "kv_tokens": row.get("max_total_num_tokens"),
            "graph_gb": row.get("graph_gb"),
            "avail_after_weights_gb": row.get("avail_after_weights_gb"),
            "avail_before_graph_gb": row.get("avail_before_graph_gb"),
            "avail_final_gb": row.get("avail_final_gb"),
            "pool_end_gb": row.get("pool_end_gb"),
            "weights_gb": row.get("weights_gb"),
        }
    )
    return clean(
        {
            "id": row["id"],
            "set": "boots",
            "engine": name,
            "version": version,
            "version_text": engine,
            "v0": True if "(V0)" in engine else None,
            "card": card_of(gpu),
            "product": gpu or None,
            "link": link_of(gpu, engine, bool(row.get("unified_memory"))),
            "model": row["model"],
            "weights": row.get("weights"),
            "geometry": row.get("geometry"),
            "multimodal": True if row.get("multimodal") else None,
            "flags": flags,
            "how": how or None,
            "printed": printed,
            "log_form": row.get("values_from"),
            "booted": True,
            "note": row.get("note"),
            "source": row["source"],
        }
    )


def below_one(printed: dict[str, Any]) -> bool:
    """A pool that holds less than one request: every release refuses to start with it."""
    return float(printed.get("max_concurrency") or 1) < 1


def boot_row(row: dict[str, Any]) -> dict[str, Any]:
    engine = row.get("engine", row.get("engine_pin", ""))
    name = {"llama.cpp": "llamacpp"}.get(row["kind"], row["kind"] if row["kind"] in ("vllm", "sglang") else "vllm")
    ident, logged, gpu = (
        row["id"],
        dict(row["logged"]),
        row.get("gpu", "RTX 3090" if row["kind"] == "club3090_peak" else ""),
    )
    extra, compose = FLAGS.get(ident, ({}, None)) if row.get("specification_row") else ({}, None)
    flags = clean(
        {
            "tensor_parallel_size": row.get("tp"),
            "pipeline_parallel_size": row.get("pp"),
            "decode_context_parallel_size": row.get("dcp"),
            "max_model_len": row.get("max_model_len", row.get("context_length", row.get("ctx"))),
            "max_num_seqs": row.get("max_num_seqs"),
            "max_num_batched_tokens": row.get("max_num_batched_tokens"),
            "gpu_memory_utilization": row.get("gpu_mem_util"),
            "kv_cache_dtype": re.sub(r"\(.*", "", row.get("kv_dtype", "auto")).strip() if "kv_dtype" in row else None,
            "enforce_eager": row.get("enforce_eager"),
            "speculative": row.get("spec"),
            "drafter": DRAFTERS.get(row.get("drafter", "")),
            "mem_fraction_static": row.get("mem_fraction_static"),
            "swa_full_tokens_ratio": row.get("swa_full_tokens_ratio"),
            "max_running_requests": row.get("max_running_requests"),
            "parallel": row.get("parallel"),
            "ubatch_size": row.get("ubatch"),
            "backend": row.get("backend"),
            **extra,
        }
    )
    rename = {
        "load_gib": "weights_gib",
        "act_gib": "activation_peak_gib",
        "nontorch_gib": "non_torch_gib",
        "avail_gib": "available_gib",
        "conc": "max_concurrency",
        "tokens": "kv_tokens",
        "gpu_blocks": "num_blocks",
        "graph_est_gib": "graph_estimate_gib",
        "measured_peak_gb": "measured_peak_gib",
        "max_total_num_tokens": "kv_tokens",
        "cuda_graph_gib": "graph_gib",
        "need_gib": "needed_gib",
        "need_len": "needed_len",
        "est_max_len": "max_model_len_that_fits",
    }
    if ident in SAME_CHECKPOINT:
        flags["weights_gb"] = SAME_CHECKPOINT[ident]
    printed = {
        rename.get(k, k): v
        for k, v in logged.items()
        if k not in ("recurrent_predicted_mib", "mamba_pad_pct", "pad_layers_pct")
    }
    for pool in printed.get("caches") or []:
        pool.pop("predicted_mib", None)
    if ident in PEAK_MIB:
        printed["measured_peak_mib"] = PEAK_MIB[ident]
    printed.update(PRINTED.get(ident, {}))
    if row.get("vram_gib"):
        printed["total_gib"] = row["vram_gib"]
    pinned = next((v for words, v in NIGHTLIES.items() if words in engine), None)
    nominal = row.get("vram_gib") in (24, 32, 80, 40, 15)
    version = VERSIONS.get(ident) or pinned or version_of(engine)
    patched = PATCHED.get(flags.get("kv_cache_dtype", "")) if row["thread"] == "club-3090" else None
    if patched:
        version = patched[0]
    return clean(
        {
            "id": ident,
            "set": "specification" if row.get("specification_row") else "boots",
            "engine": name,
            "version": version,
            "version_text": engine,
            "v0": True if "(V0)" in engine else None,
            "card": CARDS.get(ident) or card_of(gpu),
            "product": gpu or None,
            "link": link_of(gpu, engine, "unified" in gpu),
            "model": row["model"],
            "weights": row.get("weights"),
            "flags": flags,
            "how": clean(
                {
                    **{n: "compose file" for n in COMPOSED if n in extra},
                    "weights_gb": WEIGHTS_HOW if extra else SAME_CHECKPOINT_HOW if ident in SAME_CHECKPOINT else None,
                    **HOW.get(ident, {}),
                    "version": patched[1]
                    if patched
                    else "from the date and the compose file's image"
                    if ident in VERSIONS or pinned or patched
                    else None,
                    "total_gib": "nominal" if nominal else None,
                    "measured_peak_gib": "unit in the source is GB; its own headers give MiB / 1000"
                    if row["kind"] == "club3090_peak"
                    else None,
                }
            )
            or None,
            "printed": printed,
            "compose": row.get("compose"),
            "note": NOTES.get(ident),
            "booted": ("needed_gib" not in printed or "max_concurrency" in printed) and not below_one(printed),
            "source": row["source"] + (f"; flags: {compose}" if compose else ""),
        }
    )


CORRECTED = {  # what the figures of a row say against its own words
    "v30": (
        "tensor_parallel_size",
        8,
        "the row says 4; 219 GiB of fp8 weights at 27.72 a card are 8, and 4 KV heads then replicate",
    ),
}


def with_geometry(anchor: dict[str, Any]) -> dict[str, Any]:
    """The row's own geometry, and what the model's published config adds to it."""
    if anchor["id"] in CORRECTED:
        flag, value, why = CORRECTED[anchor["id"]]
        anchor["flags"][flag] = value
        anchor["how"] = {**(anchor.get("how") or {}), flag: why}
    text = anchor["model"]
    ident = next((i for words, i in IDS if re.search(words, text)), None)
    if ident is not None and ident != text:
        anchor = {**anchor, "model": ident, "model_text": text}
    found = {k: v for words, more in GEOMETRY if re.search(words, text) for k, v in more.items()}
    if anchor["flags"].get("language_model_only"):
        found.pop("encoder", None)
    if anchor.get("v0") and "max_num_seqs" not in anchor["flags"] and anchor["id"].startswith("v"):
        # the first engine's defaults, nothing else printed: 256 sequences, one batch as long as the context
        anchor["flags"].update(max_num_seqs=256, max_num_batched_tokens=anchor["flags"]["max_model_len"])
        anchor["how"] = {
            **(anchor.get("how") or {}),
            "max_num_seqs": "defaulted",
            "max_num_batched_tokens": "defaulted",
        }
    geometry = {**found, **(anchor.get("geometry") or {})}
    if anchor.get("multimodal") and geometry.get("hidden"):
        geometry.setdefault("encoder", "other")
    return {**anchor, "geometry": geometry} if geometry else anchor


def admit_unprinted(anchor: dict[str, Any]) -> dict[str, Any]:
    """Say of every flag the rules read and the source does not give that it was not printed."""
    from onboard.anchor_checks import NEEDED

    how = dict(anchor.get("how") or {})
    missing = [n for n in NEEDED[anchor["engine"]] if n not in anchor["flags"] and n not in how]
    how.update(dict.fromkeys(missing, "not printed"))
    if "version" not in anchor:
        how["version"] = "not printed"
    return {**anchor, "how": how} if how else anchor


def main(evidence: str, out: str) -> None:
    from onboard.anchor_file import dump_anchors
    from onboard.yamlio import load

    files: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for name, convert in (("activation_rows.yml", activation_row), ("boot_logs.yml", boot_row)):
        for row in load(Path(evidence) / name)["rows"]:
            anchor = admit_unprinted(with_geometry(convert(row)))
            files[(anchor["engine"], row["thread"])].append({**anchor, "thread": row["thread"]})
    merged: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for (engine, thread), anchors in sorted(files.items()):
        merged[(engine, slug(thread) if len(anchors) >= OWN_FILE else "public-logs")] += anchors
    for (engine, name), anchors in sorted(merged.items()):
        folder = Path(out) / engine
        folder.mkdir(parents=True, exist_ok=True)
        dump_anchors(folder / f"{name}.yaml", anchors)


if __name__ == "__main__":
    main(*sys.argv[1:3])
