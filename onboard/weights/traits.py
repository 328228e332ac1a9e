"""What only a family's code knows about its matrices: one entry a text model type, one table.

A rule reads a config's fields first; what no field says stands here. Source of every entry: the family's
`modeling_*.py` in transformers 5.24 and its file in vLLM 0.33 `model_executor/models/`, as the shapes both build.
"""

from __future__ import annotations

from onboard.values import Struct, replace


class Traits(Struct, frozen=True, kw_only=True):
    """The defaults are a Llama: gated MLP, no biases, two norms a layer, rotary positions."""

    gated: bool = True  # gate, up and down instead of two matrices
    qkv_bias: bool | None = None  # None: as `attention_bias` says
    o_bias: bool | None = None
    mlp_bias: bool | None = None  # None: as `mlp_bias` says
    head_bias: bool = False
    norms: int = 2  # norms a layer, each of the hidden size
    norm_bias: bool = False
    qk_norm: bool = False  # per-head norms of q and k
    full_qk_norm: bool = False  # norms over all heads
    ffn_multiple: int = 4  # intermediate size over hidden size where no field states it
    positions: int = -1  # learned positions beyond `max_position_embeddings`; -1 where positions are not learned
    embedding_norm: bool = False
    pooler: bool = False  # a dense layer over the first token
    has_head: bool = True
    output_gate: bool = False  # q_proj is twice as wide (vLLM: attn_output_gate)
    shared_gate: bool = False  # the shared expert has a gate of its own
    router_bias: bool = False
    expert_bias: bool = False
    experts_gated: bool | None = None  # None: as `gated`
    dense_beside_experts: bool = False  # every MoE layer also has a dense MLP
    beside_as_wide_as_stream: bool = False  # that MLP's width is the hidden size
    mixer_only_layers: bool = False  # a layer is one mixer, an MLP or a MoE, never two of them
    recurrent_has_mlp: bool = True  # layers with a state also have an MLP
    dense_first: int = 0  # leading dense layers where no field states it
    shared_experts: int = 0  # shared experts of an expert's width where no field states them
    tied: bool | None = None  # head and embedding where no field states it
    embedding_whole: bool = False  # the embedding is on every card
    output_gate_whole: bool = False  # a gate as wide as the heads, on every card
    gate_of_heads: bool = False  # a gate as wide as the heads, divided as they are
    shared_blocks: bool = False  # attention and MLP are blocks used by several layers (Zamba 2)
    reads_target: bool = False  # a draft without keys of its own: queries and output only
    halved_ffn: bool = False  # intermediate_size counts gate and up together


LLAMA = Traits()
_GPT = Traits(gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True)
_QWEN2 = Traits(qkv_bias=True, o_bias=False)
_QWEN3 = Traits(qk_norm=True)
_NEXT = Traits(qk_norm=True, output_gate=True, shared_gate=True)
_BERT = replace(_GPT, positions=0, embedding_norm=True, has_head=False)
_NEMOTRON_H = Traits(gated=False, norms=1, mixer_only_layers=True, recurrent_has_mlp=False)
_RWKV = Traits(norm_bias=True, recurrent_has_mlp=False)
_BART = replace(_GPT, positions=2, embedding_norm=True, norms=3, tied=True)
_T5 = Traits(gated=False, norms=3, tied=True)
_GEMMA = Traits(norms=4, qk_norm=True)

_PLAIN = (  # a Llama's matrices, or what fields alone tell
    "llama", "mistral", "ministral3", "granite", "granitemoehybrid", "bamba", "baichuan", "internlm2", "internlm3",
    "exaone", "smollm3", "phi3", "yi", "minicpm", "ernie4_5", "ernie4_5_moe", "seed_oss", "lfm2", "lfm2_moe",
    "falcon_h1", "deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "deepseek_v4", "kimi_k2", "kimi_linear",
    "glm4_moe_lite", "glm_moe_dsa", "bailing_moe", "mimo_v2_flash", "step3_text", "step3p5", "mllama_text_model",
    "longcat_flash", "ministral", "cwm", "helium", "hyperclovax", "axk1", "youtu", "mistral4", "solar_open",
    "granitemoeshared", "step3_vl", "multi_modality", "deepseek_vl_v2", "deepseek_ref", "smollm", "internlm", "xverse",
    "bitnet", "diffllama", "iquestcoder", "aquila", "kimi_vl", "eurobert", "granite_swa", "granitemoe_swa",
)  # fmt: skip

TRAITS: dict[str, Traits] = {
    **dict.fromkeys(_PLAIN, LLAMA),
    # --- two matrices and biases ---
    "gpt2": replace(_GPT, positions=0),
    "opt": replace(_GPT, positions=2),
    "bloom": replace(_GPT, embedding_norm=True),
    "gpt_neox": _GPT,
    "codegen": replace(_GPT, qkv_bias=False, o_bias=False, norms=1, head_bias=True),
    "gptj": replace(_GPT, qkv_bias=False, o_bias=False, norms=1, head_bias=True),
    "gpt_bigcode": replace(_GPT, positions=0),
    "phi": replace(_GPT, norms=1, head_bias=True),
    "starcoder2": _GPT,
    "falcon": replace(_GPT, qkv_bias=False, o_bias=False, mlp_bias=False, norms=1),
    "mpt": Traits(gated=False, norm_bias=False),
    "phi3small": replace(_GPT, gated=True, tied=True),
    "nemotron": Traits(gated=False, norm_bias=True),
    "apertus": Traits(gated=False, qk_norm=True),
    "arcee": Traits(gated=False),
    "persimmon": _GPT,
    "stablelm": Traits(norm_bias=True),
    **dict.fromkeys(
        (
            "bert", "roberta", "xlm-roberta", "camembert", "data2vec-text", "ernie", "electra", "distilbert", "mpnet",
            "deberta-v2", "xlm-roberta-xl", "roberta-prelayernorm", "layoutlm", "rembert",
            "megatron-bert", "xmod", "longformer", "big_bird",
        ),
        _BERT,
    ),
    "albert": replace(_BERT, pooler=True),
    "clip_text_model": replace(_GPT, positions=0, has_head=False),
    "siglip_text_model": replace(_GPT, positions=0, has_head=False),
    "modernbert": Traits(has_head=False),
    "modernbert-decoder": Traits(tied=True),
    "nomic_bert": Traits(has_head=False, norm_bias=True),
    "gpt_neo": replace(_GPT, qkv_bias=False, positions=0),
    "gpt_neox_japanese": replace(_GPT, qkv_bias=False, o_bias=False, mlp_bias=False),
    "openai-gpt": replace(_GPT, positions=0),
    "ctrl": _GPT,
    "xglm": _GPT,
    "biogpt": replace(_GPT, positions=2),
    "orion": Traits(norm_bias=True),
    "olmo": Traits(norms=0),
    "nanochat": Traits(gated=False, norms=0),
    "minicpm3": Traits(tied=True),
    # --- biases on q, k and v alone ---
    "qwen": replace(_QWEN2, halved_ffn=True),
    "qwen2": _QWEN2,
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen2_5_omni_text": _QWEN2,
    "qwen2_moe": replace(_QWEN2, shared_gate=True),
    "chatglm": Traits(o_bias=False),
    "glm": Traits(o_bias=False),
    "glm4": Traits(o_bias=False, norms=4),
    "glm4v_text": Traits(o_bias=False, norms=4),
    "glm4v_moe_text": Traits(o_bias=False),
    "glm4_moe": Traits(o_bias=False, qk_norm=False),
    "gpt_oss": Traits(qkv_bias=True, o_bias=True, router_bias=True, expert_bias=True),
    "phimoe": Traits(norm_bias=True, head_bias=True),
    # --- norms of q and k ---
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_asr_text": _QWEN3,
    "qwen3_omni_moe_text": _QWEN3,
    "qwen3_next": _NEXT,
    "qwen3_5": _NEXT,
    "qwen3_5_text": _NEXT,
    "qwen3_5_moe": _NEXT,
    "qwen3_5_moe_text": _NEXT,
    "olmo2": Traits(full_qk_norm=True),
    "olmo3": Traits(full_qk_norm=True),
    "olmoe": Traits(full_qk_norm=True),
    "olmo_hybrid": Traits(full_qk_norm=True),
    "flex_olmo": Traits(full_qk_norm=True),
    "hunyuan": _QWEN3,
    "hy_v3": _QWEN3,
    "afmoe": Traits(norms=4, qk_norm=True, gate_of_heads=True),
    "hunyuan_v1_dense": _QWEN3,
    "hunyuan_v1_moe": _QWEN3,
    "dots1": _QWEN3,
    "exaone_moe": _QWEN3,
    "exaone4": Traits(qk_norm=True),
    "minimax_m2": Traits(full_qk_norm=True),
    "laguna": Traits(qk_norm=True),
    "muse_glimmer_text": Traits(norms=4, output_gate_whole=True),
    # --- Cohere, Gemma ---
    "cohere": Traits(norms=1),
    "cohere2": Traits(norms=1),
    "gemma": LLAMA,
    "gemma2": Traits(norms=4),
    "gemma3": _GEMMA,
    "gemma3_text": _GEMMA,
    "gemma3n_text": _GEMMA,
    "gemma4": _GEMMA,
    "gemma4_text": replace(_GEMMA, dense_beside_experts=True),
    "gemma4_unified_text": replace(_GEMMA, dense_beside_experts=True),
    "gemma4_assistant": replace(_GEMMA, reads_target=True),
    # --- experts ---
    "mixtral": LLAMA,
    "dbrx": LLAMA,
    "arctic": Traits(dense_beside_experts=True, beside_as_wide_as_stream=True, norms=3),
    "llama4_text": Traits(shared_experts=1),
    "jamba": LLAMA,
    "granitemoe": LLAMA,
    "minimax": LLAMA,
    "minimax_text_01": LLAMA,
    "minimax_m1": LLAMA,
    "grok-1": LLAMA,
    # --- recurrent ---
    "mamba": Traits(norms=1, mixer_only_layers=True, recurrent_has_mlp=False),
    "mamba2": Traits(norms=1, mixer_only_layers=True, recurrent_has_mlp=False),
    "falcon_mamba": Traits(norms=1, mixer_only_layers=True, recurrent_has_mlp=False),
    "nemotron_h": _NEMOTRON_H,
    "zamba": Traits(shared_blocks=True, recurrent_has_mlp=False, norms=1),
    "recurrent_gemma": Traits(o_bias=True, mlp_bias=True, halved_ffn=True, tied=True),
    "rwkv": _RWKV,
    "rwkv5": _RWKV,
    "rwkv6": _RWKV,
    "rwkv7": _RWKV,
    "xlstm": Traits(recurrent_has_mlp=False),
    "zamba2": Traits(shared_blocks=True, recurrent_has_mlp=False),
    # --- encoder and decoder ---
    **dict.fromkeys(("bart", "mbart", "plbart", "mvp"), _BART),
    **dict.fromkeys(("m2m_100", "marian", "pegasus"), replace(_BART, positions=-1, embedding_norm=False)),
    **dict.fromkeys(("blenderbot", "blenderbot-small"), replace(_BART, positions=0, embedding_norm=False)),
    **dict.fromkeys(("t5", "longt5", "pop2piano"), _T5),
    **dict.fromkeys(("mt5", "umt5"), replace(_T5, tied=None)),
    "whisper": replace(_GPT, embedding_whole=True, norms=3),
}  # fmt: skip


def traits_of(model_type: str) -> tuple[Traits, bool]:
    """The entry of a text model type, and whether there is one (a Llama's shape stands in where not)."""
    found = TRAITS.get(model_type)
    return (LLAMA, False) if found is None else (found, True)
