"""What llama.cpp's code knows of each architecture and the file does not say: one entry each.

Source: llama.cpp 0c1e57098, `src/models/<arch>.cpp` load_arch_hparams, `src/llama-arch.cpp`, and create_memory in
`src/llama-model.cpp`. An architecture without an entry of its own caches every layer in full.
"""

from __future__ import annotations

from typing import Literal

from onboard.values import Struct

RecurrentRule = Literal["", "all", "beside", "no_kv_heads", "no_kv_heads_no_ffn", "interval"]
IndexerRule = Literal["", "attention", "types", "after_dense"]


class Window(Struct, frozen=True, kw_only=True):
    """Sliding layers. `pattern` n: of every n layers one is full, the last (or the first: `full_first`).

    `default` is the window where the key is absent, 0 = none then. `fixed` overrides the key (a key of 0 still turns
    it off). Pattern 0: every attention layer slides. `array` says that llama.cpp refuses a file without the per-layer
    array. `only_with_layers` restricts the rule to models of that depth.
    """

    pattern: int
    default: int = 0
    fixed: int = 0
    full_first: bool = False
    array: bool = False
    only_with_layers: int = 0
    chunked: bool = False


class Arch(Struct, frozen=True, kw_only=True):
    """One architecture. `recurrent` says which layers keep state, `state` how its geometry is keyed.

    `no_cache`: no memory module at all. `rollback`: keeps n_rs_seq older states for speculation. `kv_from_start`: only
    that many first layers own a cache, whatever the file says. `streams_per_sequence`: one stream a slot even where
    the cache is unified. `indexer_has_v`: V of one head beside the indexer's keys; `indexer_rows`: rows kept a token
    (key, gate and pooled value). `own_v_check`: the engine checks embedding / heads as the value width, not the latent.
    `split_slots`: separate slots abort in the graph, always or where they do not divide the ubatch;
    `mtp_aborts`: so does a draft context. `no_flash_attn`: the engine turns it off, whatever is asked.
    """

    window: Window | None = None
    recurrent: RecurrentRule = ""
    state: str = "mamba"
    interval: int = 4
    no_cache: bool = False
    rollback: bool = False
    kv_from_start: int = 0
    indexer: IndexerRule = ""
    indexer_has_v: bool = False
    indexer_rows: int = 1
    streams_per_sequence: bool = False
    own_v_check: bool = False
    split_slots: Literal["", "never", "divide"] = ""
    absorbs_mla: bool = True
    mtp_aborts: bool = False
    extra_layers: int = 0
    no_flash_attn: bool = False


DEFAULT = Arch()
_BERT = Arch(no_cache=True)
_HYBRID = Arch(recurrent="no_kv_heads")
_GDN = Arch(recurrent="interval", state="gdn", rollback=True)
_ARRAY = Window(pattern=0, array=True)
_EVERY_4 = Window(pattern=4)

ARCHS: dict[str, Arch] = {
    # --- no memory module ---
    "bert": _BERT,
    "modern-bert": _BERT,
    "nomic-bert": _BERT,
    "nomic-bert-moe": _BERT,
    "neo-bert": _BERT,
    "jina-bert-v2": _BERT,
    "jina-bert-v3": _BERT,
    "eurobert": _BERT,
    "gemma-embedding": _BERT,
    "wavtokenizer-dec": _BERT,
    "dream": _BERT,
    "llada": _BERT,
    "llada-moe": _BERT,
    "rnd1": _BERT,
    # --- windows ---
    "gemma2": Arch(window=Window(pattern=2, default=4096)),
    "gemma3": Arch(window=Window(pattern=6)),
    "gemma3n": Arch(window=Window(pattern=5), kv_from_start=20),
    "gemma4": Arch(window=Window(pattern=6, array=True)),
    "gemma4-assistant": Arch(window=Window(pattern=6, array=True)),
    "gpt-oss": Arch(window=Window(pattern=2)),
    "cohere2": Arch(window=_EVERY_4),
    "cohere2moe": Arch(window=Window(pattern=4, full_first=True)),
    "laguna": Arch(window=Window(pattern=4, full_first=True)),
    "smallthinker": Arch(window=Window(pattern=4, full_first=True, fixed=4096)),
    "exaone4": Arch(window=Window(pattern=4, default=4096, only_with_layers=64)),
    "exaone-moe": Arch(window=Window(pattern=4, default=128)),
    "muse-glimmer": Arch(window=_EVERY_4),
    "afmoe": Arch(window=_EVERY_4),
    "olmo2": Arch(window=_EVERY_4),
    "mellum": Arch(window=_EVERY_4),
    "plamo3": Arch(window=Window(pattern=8)),
    "llama4": Arch(window=Window(pattern=4, default=8192, fixed=8192, chunked=True)),
    "mimo2": Arch(window=_ARRAY, mtp_aborts=True),
    "step35": Arch(window=_ARRAY),
    "granite_swa": Arch(window=_ARRAY),
    "maple": Arch(window=_ARRAY),
    "spark2_5": Arch(window=_ARRAY),
    "dflash": Arch(window=_ARRAY),
    "dots3note": Arch(window=_ARRAY, indexer="types"),
    # --- recurrent, and hybrids of it ---
    "mamba": Arch(recurrent="all"),
    "mamba2": Arch(recurrent="all"),
    "rwkv6": Arch(recurrent="all", state="rwkv"),
    "rwkv6qwen2": Arch(recurrent="all", state="rwkv"),
    "rwkv7": Arch(recurrent="all", state="rwkv"),
    "arwkv7": Arch(recurrent="all", state="rwkv"),
    "jamba": _HYBRID,
    "plamo2": _HYBRID,
    "granitehybrid": _HYBRID,
    "falcon-h1": Arch(recurrent="beside"),
    "nemotron_h": Arch(recurrent="no_kv_heads_no_ffn", rollback=True),
    "nemotron_h_moe": Arch(recurrent="no_kv_heads_no_ffn", rollback=True),
    "lfm2": Arch(recurrent="no_kv_heads", state="shortconv", rollback=True, window=Window(pattern=0)),
    "lfm2moe": Arch(recurrent="no_kv_heads", state="shortconv", rollback=True),
    "qwen3next": Arch(recurrent="interval", state="gdn"),
    "qwen35": _GDN,
    "qwen35moe": _GDN,
    "qwen4exp": Arch(recurrent="interval", state="gdn", rollback=True, indexer="attention"),
    "kimi-linear": Arch(recurrent="no_kv_heads", state="kda", own_v_check=True, split_slots="divide"),
    "kimi-k3": Arch(recurrent="no_kv_heads", state="kda", rollback=True),
    "bailingmoe3": Arch(recurrent="no_kv_heads", state="kda", rollback=True),
    "glm5-next": Arch(recurrent="no_kv_heads", state="kda", rollback=True, indexer="types", indexer_rows=3),
    "minimax-01": Arch(recurrent="interval", state="lightning", interval=8, split_slots="divide"),
    # --- sparse attention ---
    "deepseek32": Arch(indexer="attention"),
    "glm-dsa": Arch(indexer="types"),
    "hy_v4": Arch(indexer="types"),
    "minimax-m3": Arch(indexer="after_dense", indexer_has_v=True),
    "deepseek4": Arch(window=Window(pattern=0), rollback=True, streams_per_sequence=True),
    # --- others that differ ---
    "grok": Arch(no_flash_attn=True),
    "t5": Arch(split_slots="never"),
    "minicpm3": Arch(absorbs_mla=False),
    "plm": Arch(absorbs_mla=False),
    "graniteswitch": Arch(extra_layers=1),
}

# Architectures that llama.cpp loads (src/llama-arch.cpp LLM_ARCH_NAMES), entry above or not.
_PLAIN = """
    llama deci falcon gpt2 gptj gptneox mpt baichuan starcoder refact bloom stablelm qwen qwen2 qwen2moe qwen2vl
    qwen3 qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe plamo codeshell orion internlm2 minicpm gemma starcoder2 xverse
    command-r dbrx olmo olmoe openelm arctic deepseek deepseek2 deepseek2-ocr chatglm glm4 glm4moe bitnet t5encoder jais
    jais2 nemotron exaone granite granitemoe chameleon bailingmoe bailingmoe2 dots1 arcee ernie4_5 ernie4_5-moe
    hunyuan-moe hunyuan-dense hunyuan_vl hy_v3 smollm3 seed_oss grovemoe apertus hrm_text minimax-m2 cogvlm
    pangu-embedded mistral3 eagle3 mistral4 paddleocr llama-embed maincoder talkie nanbeige qwen3tts pockettts
"""
PLAIN = frozenset(_PLAIN.split())


def is_known(name: str) -> bool:
    """Whether that llama.cpp loads an architecture of that name."""
    return name in ARCHS or name in PLAIN


def arch_of(name: str) -> Arch:
    """What is known of an architecture; the plain one where it has no entry."""
    return ARCHS.get(name, DEFAULT)
