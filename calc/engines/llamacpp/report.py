"""A footprint in the words of the engine contract: cache plan, pool, devices."""

from __future__ import annotations

from calc.engines.llamacpp.cache import Cache
from calc.engines.llamacpp.memory import Footprint
from calc.engines.llamacpp.model import LlamaModel
from calc.engines.llamacpp.placement import HOST
from calc.engines.llamacpp.settings import PAD
from calc.prediction import CachePlan, Device, Parts, Pool, PoolCache, Reason, Term
from calc.units import gib


def cache_plan(
    model: LlamaModel, held: Footprint, one: Footprint, sequences: int, pool_bytes: int, most: int
) -> CachePlan:
    """The cache on the fullest card. `one` is the same context with one slot, `held` what the engine makes."""
    device = held.fullest
    single = _parts(one, device)
    pool = held.context[device]
    reasons = _memory_reason(held, pool_bytes, most)
    slots = max(0, pool - sequences * single.total)
    fixed = (Term(name="slots", bytes=slots, rule=_slots_rule(held, pool, single, sequences)),) if slots else ()
    caches = tuple(_pool_cache(c) for c in held.caches)
    settings = held.settings
    growing = [c for c in one.caches if c.name != "window" and not c.slots]
    per_token = sum(c.bytes // c.cells for c in growing if c.cells and c.layers)
    return CachePlan(
        growing_bytes_per_token=per_token,
        one=single,
        asked=single * sequences,
        fixed=fixed,
        allocated_at_start=pool - slots,
        pool=Pool(
            bytes=pool,
            block_size=PAD,
            num_groups=len(caches),
            tokens=settings.n_ctx,
            max_concurrency=float(1 if settings.unified else settings.n_seq_max),
            caches=caches,
            extra={"n_ctx": settings.n_ctx, "n_ctx_seq": settings.n_ctx_seq, "num_streams": settings.streams},
        ),
        max_model_len_that_fits=most,
        state_bytes_per_sequence=sum(c.bytes for c in one.caches if c.slots),
        window_bytes_per_sequence=sum(c.bytes for c in one.caches if c.name == "window"),
        reasons=reasons,
        explain=_explain(one, device, sequences),
    )


def _memory_reason(held: Footprint, pool_bytes: int, most: int) -> tuple[Reason, ...]:
    over = held.context[held.fullest] - pool_bytes
    if over <= 0:
        return ()
    shorter = (
        f"; a context of {most} would fit" if most else "; --n-gpu-layers or --n-cpu-moe moves weights to the host"
    )
    return (Reason("memory", f"{gib(over)} too much on the fullest card with --fit's margin kept free{shorter}"),)


def _parts(held: Footprint, device: int) -> Parts:
    """Bytes of one device by what makes them grow; cells beyond the tokens asked for are padding."""
    sums = {"growing": 0, "window": 0, "state": 0}
    kinds = {"window": "window", "state": "state", "compressor": "state"}
    for cache in held.caches:
        for layer in cache.layers:
            if _device(held, layer.layer) == device:
                sums[kinds.get(cache.name, "growing")] += layer.total
    asked, cells = held.settings.asked, held.settings.n_ctx
    padding = sums["growing"] - sums["growing"] * asked // cells if cells > asked else 0
    return Parts(growing=sums["growing"] - padding, window=sums["window"], state=sums["state"], padding=padding)


def _device(held: Footprint, layer: int) -> int:
    layers = held.placement.layers
    return layers[min(layer, len(layers) - 1)] if held.settings.offload_kqv else HOST


def _pool_cache(cache: Cache) -> PoolCache:
    if cache.slots:
        return PoolCache(
            name=cache.name,
            num_layers=cache.num_layers,
            num_cells=cache.cells,
            num_slots=cache.slots,
            bytes=cache.bytes,
        )
    return PoolCache(
        name=cache.name,
        num_layers=cache.num_layers,
        num_cells=cache.cells,
        k_bytes=cache.k_bytes,
        v_bytes=cache.v_bytes,
        num_slots=cache.streams,
        bytes=cache.bytes,
    )


def _slots_rule(held: Footprint, pool: int, single: Parts, sequences: int) -> str:
    told = f"windows and states of {held.settings.n_seq_max} slots, less those of the sequences asked for"
    return f"{pool:,} B held - {sequences} x {single.total:,} B a sequence; {told}"


def _explain(one: Footprint, device: int, sequences: int) -> tuple[tuple[str, str], ...]:
    """One line a part: the layers on the fullest device x what one keeps; of the cells beyond the tokens asked for,
    the share is padding.
    """
    lines: dict[str, list[str]] = {}
    settings = one.settings
    for cache in one.caches:
        name = "state" if cache.slots else "kv_window" if cache.name == "window" else "kv_growing"
        lines.setdefault(name, []).extend(_cache_lines(one, cache, device))
    times = f" x {sequences} sequences" if sequences > 1 else ""
    found = {name: " + ".join(texts) for name, texts in lines.items()}
    growing, asked, cells = found.get("kv_growing", ""), settings.asked, settings.n_ctx
    if growing and cells > asked:
        found["kv_growing"] = f"({growing}) x {asked:,} tokens asked / {cells:,}"
        found["kv_padding"] = f"({growing}) x {cells - asked:,} / {cells:,}; a context is a multiple of 256"
    return tuple((name, _times(text, times)) for name, text in found.items())


def _times(text: str, times: str) -> str:
    expression, mark, remark = text.partition("; ")
    return f"({expression}){times}{mark}{remark}" if times and expression else text


def _cache_lines(one: Footprint, cache: Cache, device: int) -> list[str]:
    """The layers of a cache on `device`, those of one width together."""
    alike: dict[tuple[int, int], int] = {}
    for layer in cache.layers:
        if _device(one, layer.layer) == device:
            alike[layer.k, layer.v] = alike.get((layer.k, layer.v), 0) + 1
    where = "the host" if device == HOST else f"card {device}"
    return [
        _layers_line(one, cache, k, v, f"{n} of {len(cache.layers)} layers on {where}") for (k, v), n in alike.items()
    ]


def _layers_line(one: Footprint, cache: Cache, k: int, v: int, layers: str) -> str:
    settings = one.settings
    shown = layers.replace(" of ", " [of ", 1) + "]"
    if cache.slots:
        rows = (
            f" x {1 + settings.n_rs_seq} [the state and {settings.n_rs_seq} to roll back to]"
            if settings.n_rs_seq
            else ""
        )
        count = 4 * cache.slots * (1 + settings.n_rs_seq)
        return f"{shown} x (R {k // count:,} + S {v // count:,}) elements x 4 B x {cache.slots} slot(s){rows}"
    cells = cache.cells * cache.streams
    width = f"(K {k // cells:,} B as {settings.type_k} + V {v // cells:,} B as {settings.type_v})"
    return f"{shown} x {width} a {cache.name} cell x {cells:,} cells"


def device_list(held: Footprint) -> tuple[Device, ...]:
    """Cards by number, then the host, each with weights, caches and compute buffer."""
    return tuple(
        Device(
            name="host" if d == HOST else f"gpu{d}",
            weights_bytes=held.weights[d],
            context_bytes=held.context[d],
            compute_bytes=held.compute[d].bytes,
        )
        for d in held.placement.devices
    )
