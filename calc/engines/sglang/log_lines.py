"""The lines SGLang prints about memory, as templates: `{name:GB}` is a size (its GB is 2^30), `{name:count}` a count,
`…` anything (bounded, so that no line costs more than its length allows).

Sources: mem_cache/memory_pool.py, mem_cache/swa_memory_pool.py, model_executor/pool_configurator.py,
managers/scheduler.py and model_executor/model_runner.py of 0.4.9 to 0.5.23.
"""

from __future__ import annotations

import re

from calc.bootlog_lines import LinePattern

_PLACE = re.compile(r"\{(\w+):(GB|count)\}")
_PIECES = {"GB": r"(?P<{}>\d+(?:[.,]\d+)?) ?GB", "count": r"(?P<{}>\d+)"}
_UNITS = {"GB": "GiB", "count": "count"}


def line(template: str, *, labels: bool = True) -> LinePattern:
    """The pattern of a template; without `labels` no pool's name may stand just before it."""
    units: dict[str, str] = {}
    regex = "" if labels else "(?<!Full )(?<!SWA )"
    position = 0
    for place in _PLACE.finditer(template):
        regex += _literal(template[position : place.start()]) + _PIECES[place[2]].format(place[1])
        units[place[1]] = _UNITS[place[2]]
        position = place.end()
    return LinePattern(re.compile(regex + _literal(template[position:])), units)


def _literal(text: str) -> str:
    return ".{0,2000}?".join(re.escape(part) for part in text.split("…"))


LINES: tuple[LinePattern, ...] = (
    line("Load weight begin. avail mem={free_before_weights_bytes:GB}"),
    line("Load weight end.…avail mem={free_after_weights_bytes:GB}"),
    line("Load weight end.…mem usage={weights:GB}"),
    line(
        "Full KV Cache is allocated.…#tokens: {full_tokens:count}, K size: {full_k_bytes:GB}, V size: {full_v_bytes:GB}"
    ),
    line(
        "SWA KV Cache is allocated.…#tokens: {window_tokens:count},"
        " K size: {window_k_bytes:GB}, V size: {window_v_bytes:GB}"
    ),
    # Without a label: the whole pool, or in older builds any pool (`log_pools.label_pools` tells them apart).
    line(
        "KV Cache is allocated.…#tokens: {pool_tokens:count}, K size: {pool_k_bytes:GB}, V size: {pool_v_bytes:GB}",
        labels=False,
    ),
    line("KV Cache is allocated.…#tokens: {pool_tokens:count}, KV size: {pool_k_bytes:GB}", labels=False),
    line("window memory pool. full_layer_tokens={full_tokens:count}, swa_layer_tokens={window_tokens:count}"),
    line("Mamba Cache is allocated. max_mamba_cache_size: {state_slots:count}, conv_state size: {state_conv_bytes:GB}"),
    line("Mamba Cache is allocated.…ssm_state size: {state_ssm_bytes:GB}"),
    line("Mamba Cache is allocated.…intermediate_ssm_state_cache size: {state_intermediate_ssm_bytes:GB}"),
    line("max_total_num_tokens={kv_tokens:count}"),
    line("max_total_num_tokens=…max_running_requests={max_running_requests:count}"),
    line("max_total_num_tokens=…context_len={context_len:count}"),
    line("apture cuda graph end.…mem usage={cuda_graphs:GB}"),
)
