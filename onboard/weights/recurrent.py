"""The matrices of recurrent token mixers, from their state's spec and the config's facts: one builder a state class.

Sources: vLLM 0.33 model_executor/models/{qwen3_next,kimi_linear,minimax_text_01,lfm2}.py and layers/mamba/
mamba_mixer{,2}.py; transformers 5.24 models/{rwkv,recurrent_gemma,xlstm,zamba}; flash-linear-attention's
rwkv6, rwkv7 and retnet layers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onboard import states
from onboard.layers import CacheSpec
from onboard.weights.context import Context
from onboard.weights.matrix import Matrix, linear, vector


def _delta_net(context: Context, cache: Any, index: int) -> list[Matrix]:
    keys, values, hidden = cache.num_k_heads * cache.k_dim, cache.num_v_heads * cache.v_dim, context.hidden
    made = linear("state", "linear_attn.in_proj_qkvz", hidden, 2 * keys + 2 * values)
    made += linear("state", "linear_attn.in_proj_ba", hidden, 2 * cache.num_v_heads)
    made += linear("state", "linear_attn.out_proj", values, hidden)
    made += [Matrix(role="state", module="linear_attn.conv1d", rows=2 * keys + values, columns=cache.conv_kernel)]
    return [
        *made,
        vector("state", "linear_attn.A_log", 2 * cache.num_v_heads),
        vector("norm", "linear_attn.norm", cache.v_dim),
    ]


def _mamba2(context: Context, cache: Any, index: int) -> list[Matrix]:
    """Mamba 2. B and C are by group, and a card keeps at least one whole group."""
    inner, hidden, heads = cache.num_heads * cache.head_dim, context.hidden, cache.num_heads
    groups = 2 * cache.num_groups * cache.state_dim
    made = linear("state", "mixer.in_proj", hidden, 2 * inner + heads)
    made += linear("state_groups", "mixer.in_proj", hidden, groups, units=cache.num_groups)
    made += linear("state", "mixer.out_proj", inner, hidden)
    made += [Matrix(role="state", module="mixer.conv1d", rows=inner, columns=cache.conv_kernel + 1)]
    made += [
        Matrix(
            role="state_groups",
            module="mixer.conv1d",
            rows=groups,
            columns=cache.conv_kernel + 1,
            units=cache.num_groups,
        )
    ]
    return [*made, vector("state", "mixer.A", 3 * heads), vector("state", "mixer.norm", inner)]


def _mamba1(context: Context, cache: Any, index: int) -> list[Matrix]:
    inner, state, hidden = cache.inner_dim, cache.state_dim, context.hidden
    stated = context.facts.get("ssm_dt_rank")
    rank = stated if isinstance(stated, int) and not isinstance(stated, bool) else -(-hidden // 16)
    made = linear("state", "mixer.in_proj", hidden, 2 * inner)
    made += linear("state", "mixer.x_proj", inner, rank + 2 * state)
    made += linear("state", "mixer.dt_proj", rank, inner, bias=True)
    made += linear("state", "mixer.out_proj", inner, hidden)
    made += [Matrix(role="state", module="mixer.conv1d", rows=inner, columns=cache.conv_kernel + 1)]
    return [*made, Matrix(role="state", module="mixer.A", rows=inner, columns=state + 1, wide=True)]


def _short_conv(context: Context, cache: Any, index: int) -> list[Matrix]:
    made = linear("state", "conv.in_proj", context.hidden, 3 * cache.channels)
    made += linear("state", "conv.out_proj", cache.channels, context.hidden)
    return [*made, Matrix(role="state", module="conv.conv", rows=cache.channels, columns=cache.conv_kernel)]


def _kimi_delta(context: Context, cache: Any, index: int) -> list[Matrix]:
    wide, hidden, dim = cache.num_heads * cache.head_dim, context.hidden, cache.head_dim
    made = linear("state", "self_attn.qkv_proj", hidden, 3 * wide)
    made += linear("replicated", "self_attn.f_a_proj", hidden, dim) + linear("state", "self_attn.f_b_proj", dim, wide)
    made += linear("state", "self_attn.b_proj", hidden, cache.num_heads)
    if context.facts.get("use_full_rank_gate"):
        made += linear("state", "self_attn.g_proj", hidden, wide)
    else:
        made += linear("replicated", "self_attn.g_a_proj", hidden, dim) + linear(
            "state", "self_attn.g_b_proj", dim, wide
        )
    made += linear("state", "self_attn.o_proj", wide, hidden)
    made += [Matrix(role="state", module="self_attn.conv1d", rows=3 * wide, columns=cache.conv_kernel)]
    return [
        *made,
        vector("state", "self_attn.dt_bias", wide + cache.num_heads),
        vector("norm", "self_attn.o_norm", dim),
    ]


def _lightning(context: Context, cache: Any, index: int) -> list[Matrix]:
    wide, hidden = cache.num_heads * cache.head_dim, context.hidden
    made = linear("state", "self_attn.qkv_proj", hidden, 3 * wide)
    made += linear("state", "self_attn.output_gate", hidden, wide) + linear("state", "self_attn.out_proj", wide, hidden)
    return [*made, vector("norm", "self_attn.norm", wide)]


def _mamba_heads(context: Context, cache: Any, index: int) -> list[Matrix]:
    """Zamba: Mamba 1 whose projections to B, C and dt are one a head, which adds up to the same."""
    inner = cache.num_heads * cache.head_dim
    whole = states.Mamba1(inner_dim=inner, state_dim=cache.state_dim, conv_kernel=cache.conv_kernel)
    return _mamba1(context, whole, index)


def _rg_lru(context: Context, cache: Any, index: int) -> list[Matrix]:
    """Griffin's block: two branches in, a short convolution, gates that are block-diagonal by head, one way out."""
    wide, hidden = cache.lru_width, context.hidden
    heads = int(context.facts.layer("num_attention_heads", index) or 1)
    made = linear("state", "linear_y", hidden, 2 * wide, bias=True)
    made += linear("state", "linear_out", wide, hidden, bias=True)
    made += [Matrix(role="state", module="conv_1d", rows=wide, columns=cache.conv_kernel + 1)]
    return [*made, Matrix(role="state", module="rg_lru", rows=wide, columns=2 * (wide // heads) + 3)]


def _rwkv4(context: Context, cache: Any, index: int) -> list[Matrix]:
    """Time mixing and channel mixing; the second stands for the layer's MLP."""
    wide, hidden = cache.attention_dim, context.hidden
    made = linear("state", "attention.in", hidden, 3 * wide) + linear("state", "attention.output", wide, hidden)
    return [*made, vector("norm", "attention.time", 2 * wide + 3 * hidden), *_channel_mix(context, receptance=True)]


def _channel_mix(context: Context, *, receptance: bool, multiple: float = 4) -> list[Matrix]:
    hidden = context.hidden
    inner = int(context.facts.get("intermediate_size") or 32 * (multiple * hidden // 32))
    made = linear("mlp", "feed_forward.key", hidden, inner) + linear("mlp", "feed_forward.value", inner, hidden)
    made += linear("mlp", "feed_forward.receptance", hidden, hidden) if receptance else []
    return [*made, vector("norm", "feed_forward.time", 2 * hidden if receptance else hidden)]


def _rwkv_matrix(context: Context, cache: Any, index: int) -> list[Matrix]:
    """RWKV 5 and 6 (five square matrices, mixing by low ranks), or 7 (four, and a low rank for each of w, a, v, g)."""
    facts, hidden = context.facts, context.hidden
    wide = cache.num_heads * cache.head_dim
    decay, gate = int(facts.get("decay_rank") or 64), facts.get("gate_rank")
    if facts.get("a_rank"):
        ranks = decay + int(facts.get("a_rank")) + int(facts.get("v_rank") or 0) + int(gate or 0)
        made = linear("state", "attn.rkv", hidden, 3 * wide) + linear("state", "attn.o_proj", wide, hidden)
        made += [Matrix(role="replicated", module="attn.lora", rows=2 * ranks, columns=hidden)]
        made.append(vector("norm", "attn.mix", 14 * hidden))
        return made + _channel_mix(context, receptance=False)
    made = linear("state", "attention.in", hidden, 4 * wide) + linear("state", "attention.output", wide, hidden)
    mix = facts.get("mix_rank")
    if mix:
        made += [Matrix(role="replicated", module="attention.maa", rows=10 * mix + 2 * decay, columns=hidden)]
    made.append(vector("norm", "attention.time", 10 * hidden))
    return made + _channel_mix(context, receptance=True, multiple=3.5)


def _xlstm(context: Context, cache: Any, index: int) -> list[Matrix]:
    """mLSTM and its gated MLP, as wide as `ffn_proj_factor` says, rounded up."""
    facts, hidden, heads = context.facts, context.hidden, cache.num_heads
    keys, values = heads * cache.k_dim, heads * cache.v_dim
    made = linear("state", "mlstm_layer.qkv", hidden, 2 * keys + 2 * values)
    made += linear("state", "mlstm_layer.ifgate", hidden, 2 * heads, bias=True)
    made += linear("state", "mlstm_layer.out_proj", values, hidden)
    multiple = int(facts.get("ffn_multiple_of") or 64)
    inner = multiple * -(-int(float(facts.get("ffn_proj_factor") or 8 / 3) * hidden) // multiple)
    made += linear("mlp", "ffn.proj_up", hidden, 2 * inner) + linear("mlp", "ffn.proj_down", inner, hidden)
    return [*made, vector("norm", "mlstm_layer.multihead_norm", values)]


def _retention(context: Context, cache: Any, index: int) -> list[Matrix]:
    keys, values, hidden = cache.num_heads * cache.k_dim, cache.num_heads * cache.v_dim, context.hidden
    made = linear("state", "attn.qkvg", hidden, 2 * keys + 2 * values)
    return [*made, *linear("state", "attn.o_proj", values, hidden), vector("norm", "attn.g_norm", cache.v_dim)]


RECURRENT: dict[type[CacheSpec], Callable[[Context, Any, int], list[Matrix]]] = {
    states.GatedDeltaNet: _delta_net,
    states.Mamba2: _mamba2,
    states.Mamba1: _mamba1,
    states.MambaHeads: _mamba_heads,
    states.ShortConv: _short_conv,
    states.KimiDelta: _kimi_delta,
    states.LightningAttention: _lightning,
    states.RgLru: _rg_lru,
    states.Rwkv4: _rwkv4,
    states.RwkvMatrix: _rwkv_matrix,
    states.XLstm: _xlstm,
    states.Retention: _retention,
}
