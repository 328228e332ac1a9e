"""Loops: layers that run several times with one set of weights keep one cache a pass."""

from __future__ import annotations

from onboard.errors import FieldInvalid
from onboard.facts import Facts
from onboard.layers import Layer
from onboard.rules.counts import pairs_attention_and_mlp
from onboard.rules.nested import nested_int

MAX_LAYERS = 100_000  # as for num_hidden_layers; a config that asks for more is no real one


def unroll(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The stack with one layer for every pass that keeps its own cache; later passes stand at the end."""
    for loop in (_loop_range, _recurrent_section, _cycles, _universal_steps, _recurrent_depth):
        layers = loop(facts, layers)
    return layers


def _again(facts: Facts, layers: tuple[Layer, ...], start: int, end: int, passes: int, path: str) -> tuple[Layer, ...]:
    if not 0 <= start <= end <= len(layers):
        raise FieldInvalid(
            f"the loop runs from layer {start} to {end} of {len(layers)}", path=facts.prefix + path, value=end
        )
    total = len(layers) + (end - start) * (passes - 1)
    if total > MAX_LAYERS:
        raise FieldInvalid(f"the loops make {total} layers of {len(layers)}", path=facts.prefix + path, value=passes)
    facts.record("loop_passes_kept", passes, path)
    return layers + layers[start:end] * (passes - 1)


def _loop_range(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """Layers `loop_layer_index_start` to `_end`, `loop_num_passes` times (transformers 5.24 `inkling2_loop`)."""
    config = facts.get("loop_config") or {}
    if not config and facts.get("loop_passes") is None:
        return layers
    start = (
        config["core_start"]
        if config.get("core_start") == 0
        else nested_int(facts, config, "loop_config", "core_start", "loop_start")
    )
    end = nested_int(facts, config, "loop_config", "core_end", "loop_end")
    passes = nested_int(facts, config, "loop_config", "num_passes", "loop_passes")
    return _again(facts, layers, start, end, passes, "loop_layer_index_end")


def _recurrent_section(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The middle of the stack `n_recurrent_loops` times; in mode `last_loop` one cache serves all.

    Source: transformers 5.24 `models/dory` (DoryModel.forward).
    """
    loops = facts.get("n_recurrent_loops")
    if loops is None or facts.get("recurrent_kv_cache_mode") == "last_loop":
        return layers
    scale = 2 if pairs_attention_and_mlp(facts) else 1
    start = facts.need("n_input_layers") // scale
    stated = facts.get("n_recurrent_layers")
    size = len(layers) - start - facts.need("n_output_layers") // scale if stated is None else stated // scale
    return _again(facts, layers, start, start + size, loops, "n_recurrent_loops")


def _cycles(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """`H_cycles` x (`L_cycles` + 1) passes through two stacks of `num_hidden_layers` (transformers 5.24 `hrm_text`).

    A config that also states `num_layers_per_stack` was saved after its class had multiplied the count.
    """
    high, low = facts.get("h_cycles"), facts.get("l_cycles")
    if high is None or low is None or facts.get("num_layers_per_stack") is not None:
        return layers
    return _again(facts, layers, 0, len(layers), high * (low + 1), "H_cycles")


def _universal_steps(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """`total_ut_steps` passes through the whole stack (Ouro; vLLM `models/ouro.py`), or `num_loops` (Nanbeige)."""
    steps = facts.get("total_ut_steps")
    return layers if steps is None else _again(facts, layers, 0, len(layers), steps, "total_ut_steps")


def _recurrent_depth(facts: Facts, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The block behind the prelude `mean_recurrence` times, unless a request asks for more.

    Source: Huginn's repository, raven_modeling_minimal.py.
    """
    passes, block = facts.get("mean_recurrence"), facts.get("n_block_layers")
    if passes is None or block is None:
        return layers
    start = facts.need("n_prelude_layers")
    facts.caution(
        "steps-by-request", "mean_recurrence", f"{passes} passes, the mean; a request may ask for another number"
    )
    return _again(facts, layers, start, start + block, passes, "mean_recurrence")
