"""What llama.cpp's converter would make of a model: config class -> GGUF architecture.

Source: llama.cpp 0c1e57098 `conversion/*.py`, the names each class registers and its `model_arch`. A multimodal
wrapper without a class of its own goes by its text model. NemotronH configs all carry `num_experts_per_tok` (class
default), so the converter writes the MoE architecture for dense ones too.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from onboard.gguf.archs import arch_of
from onboard.layers import CacheSpec, FullAttention, Layer
from onboard.profile import Profile

_CLASSES: dict[str, str] = {
    "afmoe": "AfmoeForCausalLM",
    "apertus": "ApertusForCausalLM",
    "arcee": "ArceeForCausalLM",
    "arctic": "ArcticForCausalLM",
    "arwkv7": "RwkvHybridForCausalLM",
    "baichuan": "BaiChuanForCausalLM BaichuanForCausalLM",
    "bailingmoe": "BailingMoeForCausalLM",
    "bailingmoe2": "BailingMoeV2ForCausalLM SarvamMoEForCausalLM modeling_sarvam_moe.SarvamMoEForCausalLM",
    "bailingmoe3": "BailingMoeV3ForCausalLM BailingMoeV3VLForConditionalGeneration",
    "bert": (
        "BertForMaskedLM BertForSequenceClassification BertModel CamembertModel DistilBertForMaskedLM "
        "DistilBertForSequenceClassification DistilBertModel NomicBertModel RobertaForSequenceClassification "
        "RobertaModel XLMRobertaForSequenceClassification XLMRobertaModel"
    ),
    "bitnet": "BitNetForCausalLM BitnetForCausalLM",
    "bloom": "BloomForCausalLM BloomModel",
    "chameleon": "ChameleonForCausalLM ChameleonForConditionalGeneration",
    "chatglm": "ChatGLMForConditionalGeneration ChatGLMModel GlmForCausalLM",
    "codeshell": "CodeShellForCausalLM",
    "cogvlm": "CogVLMForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "cohere2moe": "Cohere2MoeForCausalLM",
    "command-r": "CohereForCausalLM",
    "dbrx": "DbrxForCausalLM",
    "deci": "DeciLMForCausalLM",
    "deepseek": "DeepseekForCausalLM",
    "deepseek2": (
        "DeepseekOCRForCausalLM DeepseekV2ForCausalLM DeepseekV3ForCausalLM Glm4MoeLiteForCausalLM "
        "KimiK25ForConditionalGeneration KimiVLForConditionalGeneration UnlimitedOCRForCausalLM "
        "YoutuForCausalLM YoutuVLForConditionalGeneration"
    ),
    "deepseek32": "DeepseekV32ForCausalLM",
    "deepseek4": "DeepseekV4ForCausalLM",
    "dflash": (
        "DFlash2DraftModel DFlashDraftModel DSparkDraftModel DSparkSpeculator DeepseekV4DSparkModel "
        "Gemma4DSparkModel Lfm2DSparkDraftModel LingDSparkModel MuseGlimmerAssistantModel Qwen3DSparkModel"
    ),
    "dots1": "Dots1ForCausalLM",
    "dots3note": "Dots3NoteForCausalLM Dots3NoteForConditionalGeneration Dots3NoteTextForCausalLM",
    "dream": "DreamModel",
    "ernie4_5": "Ernie4_5ForCausalLM Ernie4_5_ForCausalLM",
    "ernie4_5-moe": "Ernie4_5_MoeForCausalLM",
    "eurobert": "EuroBertModel JinaEmbeddingsV5Model",
    "exaone": "ExaoneForCausalLM",
    "exaone-moe": "ExaoneMoEForCausalLM ExaoneMoeForCausalLM",
    "exaone4": "Exaone4ForCausalLM Exaone4_5_ForConditionalGeneration",
    "falcon": "FalconForCausalLM RWForCausalLM",
    "falcon-h1": "FalconH1ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma-embedding": "Gemma3TextModel",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
    "gemma3n": "Gemma3nForCausalLM Gemma3nForConditionalGeneration",
    "gemma4": "Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration",
    "gemma4-assistant": "Gemma4AssistantForCausalLM Gemma4UnifiedAssistantForCausalLM",
    "glm-dsa": "GlmMoeDsaForCausalLM",
    "glm4": "Glm4ForCausalLM Glm4vForConditionalGeneration GlmOcrForConditionalGeneration",
    "glm4moe": "Glm4MoeForCausalLM Glm4vMoeForConditionalGeneration SolarOpenForCausalLM",
    "glm5-next": "Glm5NextForConditionalGeneration",
    "gpt-oss": "GptOssForCausalLM",
    "gpt2": "GPT2LMHeadModel RuGPT3XLForCausalLM",
    "gptneox": "GPTNeoXForCausalLM",
    "granite": "GraniteForCausalLM",
    "granite_swa": "GraniteMoeSWAForCausalLM GraniteSWAForCausalLM",
    "granitehybrid": "BambaForCausalLM GraniteMoeHybridForCausalLM",
    "granitemoe": "GraniteMoeForCausalLM GraniteMoeSharedForCausalLM",
    "graniteswitch": "GraniteSwitchForCausalLM",
    "grok": "Grok1ForCausalLM GrokForCausalLM",
    "grovemoe": "GroveMoeForCausalLM modeling_grove_moe.GroveMoeForCausalLM",
    "hrm_text": "HrmTextForCausalLM",
    "hunyuan-dense": "HunYuanDenseV1ForCausalLM",
    "hunyuan-moe": "HunYuanMoEV1ForCausalLM",
    "hunyuan_vl": "HunYuanVLForConditionalGeneration",
    "hy_v3": "HYV3ForCausalLM",
    "hy_v4": "HYV4ForCausalLM",
    "internlm2": "InternLM2ForCausalLM",
    "jais": "JAISLMHeadModel",
    "jais2": "Jais2ForCausalLM",
    "jamba": "JambaForCausalLM",
    "jina-bert-v2": "JinaBertForMaskedLM JinaBertModel",
    "kimi-k3": "KimiK3ForConditionalGeneration",
    "kimi-linear": "KimiLinearForCausalLM KimiLinearModel",
    "laguna": "LagunaForCausalLM",
    "lfm2": "LFM2ForCausalLM Lfm25AudioTokenizer Lfm2BidirectionalModel Lfm2ForCausalLM Lfm2Model",
    "lfm2moe": "Lfm2MoeForCausalLM",
    "llada": "LLaDAModelLM",
    "llada-moe": "LLaDAMoEModel LLaDAMoEModelLM",
    "llama": (
        "Eagle3DraftModel Eagle3LlamaForCausalLM Eagle3Speculator IQuestCoderForCausalLM "
        "InternLM3ForCausalLM JanusForConditionalGeneration LLaMAForCausalLM LlamaForCausalLM "
        "LlamaForCausalLMEagle3 LlamaModel LlavaForConditionalGeneration MistralForCausalLM "
        "MixtralForCausalLM Sarashina2VisionForCausalLM UltravoxModel VLlama3ForCausalLM "
        "VoxtralForConditionalGeneration"
    ),
    "llama-embed": "LlamaBidirectionalModel",
    "llama4": "Llama4ForCausalLM Llama4ForConditionalGeneration",
    "maincoder": "MaincoderForCausalLM",
    "mamba": "FalconMambaForCausalLM MambaForCausalLM MambaLMHeadModel",
    "mamba2": "Mamba2ForCausalLM",
    "maple": "MapleForCausalLM",
    "mellum": "MellumForCausalLM",
    "mimo2": "MiMoV2FlashForCausalLM MiMoV2ForCausalLM",
    "minicpm": "MiniCPMForCausalLM",
    "minicpm3": "MiniCPM3ForCausalLM",
    "minimax-01": "MiniMaxM1ForCausalLM MiniMaxText01ForCausalLM",
    "minimax-m2": "MiniMaxM2ForCausalLM",
    "minimax-m3": "MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration",
    "mistral3": "Ministral3ForCausalLM Mistral3ForConditionalGeneration",
    "modern-bert": "ModernBertForMaskedLM ModernBertForSequenceClassification ModernBertModel",
    "mpt": "MPTForCausalLM",
    "muse-glimmer": "MuseGlimmerForConditionalGeneration",
    "nanbeige": "NanbeigeForCausalLM",
    "nemotron": "NemotronForCausalLM",
    "nemotron_h_moe": "NemotronHForCausalLM NemotronHPuzzleForCausalLM",
    "neo-bert": "NeoBERT NeoBERTForSequenceClassification NeoBERTLMHead",
    "olmo": "OLMoForCausalLM OlmoForCausalLM",
    "olmo2": "Olmo2ForCausalLM Olmo3ForCausalLM",
    "olmoe": "OlmoeForCausalLM",
    "openelm": "OpenELMForCausalLM",
    "orion": "OrionForCausalLM",
    "paddleocr": "PaddleOCRVLForConditionalGeneration",
    "pangu-embedded": "PanguEmbeddedForCausalLM",
    "phi2": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM Phi4ForCausalLMV",
    "phimoe": "PhiMoEForCausalLM",
    "plamo": "PlamoForCausalLM",
    "plamo2": "PLaMo2ForCausalLM Plamo2ForCausalLM",
    "plamo3": "PLaMo3ForCausalLM Plamo3ForCausalLM",
    "plm": "PLMForCausalLM",
    "pockettts": "PocketTTSModel",
    "qwen": "QWenLMHeadModel",
    "qwen2": (
        "AudioFlamingo3ForConditionalGeneration DotsOCRForCausalLM KORMoForCausalLM "
        "Qwen2AudioForConditionalGeneration Qwen2ForCausalLM Qwen2Model"
    ),
    "qwen2moe": "Qwen2MoeForCausalLM",
    "qwen2vl": "Qwen2VLForConditionalGeneration Qwen2VLModel Qwen2_5OmniModel Qwen2_5_VLForConditionalGeneration",
    "qwen3": "Qwen3ForCausalLM Qwen3Model StepVLForConditionalGeneration",
    "qwen35": "MiniCPMV4_6ForConditionalGeneration Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration",
    "qwen35moe": "Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration",
    "qwen3moe": "Qwen3MoeForCausalLM",
    "qwen3next": "Qwen3NextForCausalLM",
    "qwen3tts": "Qwen3TTSForConditionalGeneration",
    "qwen3vl": "Qwen3ASRForConditionalGeneration Qwen3VLForConditionalGeneration",
    "qwen3vlmoe": "Qwen3OmniMoeForConditionalGeneration Qwen3VLMoeForConditionalGeneration",
    "qwen4exp": "Qwen4ExpForCausalLM Qwen4ExpForConditionalGeneration",
    "refact": "GPTRefactForCausalLM",
    "rnd1": "RND1",
    "rwkv6": "Rwkv6ForCausalLM",
    "rwkv6qwen2": "RWKV6Qwen2ForCausalLM",
    "rwkv7": "RWKV7ForCausalLM Rwkv7ForCausalLM",
    "seed_oss": "SeedOssForCausalLM",
    "smallthinker": "SmallThinkerForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "spark2_5": "Spark2_5ForCausalLM",
    "stablelm": "LlavaStableLMEpochForCausalLM StableLMEpochForCausalLM StableLmForCausalLM",
    "starcoder": "GPTBigCodeForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
    "step35": "Step3p5ForCausalLM Step3p7ForConditionalGeneration",
    "t5": (
        "MT5ForConditionalGeneration T5ForConditionalGeneration T5WithLMHeadModel "
        "UMT5ForConditionalGeneration UMT5Model"
    ),
    "t5encoder": "T5EncoderModel",
    "talkie": "TalkieForCausalLM",
    "wavtokenizer-dec": "WavTokenizerDec",
    "xverse": "XverseForCausalLM",
}

# Text models inside wrappers that the converter has no class for, by their model_type.
_MODEL_TYPES: dict[str, str] = {
    "llama": "llama",
    "mistral": "llama",
    "mixtral": "llama",
    "ministral3": "mistral3",
    "qwen2": "qwen2",
    "qwen2_moe": "qwen2moe",
    "qwen2_vl": "qwen2vl",
    "qwen2_5_vl": "qwen2vl",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    "qwen3_vl": "qwen3vl",
    "qwen3_vl_moe": "qwen3vlmoe",
    "qwen3_5": "qwen35",
    "qwen3_5_text": "qwen35",
    "qwen3_5_moe": "qwen35moe",
    "qwen3_5_moe_text": "qwen35moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
    "gemma3n": "gemma3n",
    "gemma3n_text": "gemma3n",
    "gemma4": "gemma4",
    "gemma4_text": "gemma4",
    "gpt_oss": "gpt-oss",
    "phi": "phi2",
    "phi3": "phi3",
    "phimoe": "phimoe",
    "internlm2": "internlm2",
    "lfm2": "lfm2",
    "lfm2_vl": "lfm2",
    "lfm2_moe": "lfm2moe",
    "deepseek": "deepseek",
    "deepseek_v2": "deepseek2",
    "deepseek_v3": "deepseek2",
    "kimi_k2": "deepseek2",
    "kimi_k25": "deepseek2",
    "deepseek_v32": "deepseek32",
    "deepseek_v4": "deepseek4",
    "glm4": "glm4",
    "glm4_moe": "glm4moe",
    "glm4_moe_lite": "deepseek2",
    "glm_moe_dsa": "glm-dsa",
    "chatglm": "chatglm",
    "cohere": "command-r",
    "cohere2": "cohere2",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "granitemoehybrid": "granitehybrid",
    "bamba": "granitehybrid",
    "nemotron_h": "nemotron_h_moe",
    "falcon": "falcon",
    "falcon_h1": "falcon-h1",
    "mamba": "mamba",
    "falcon_mamba": "mamba",
    "mamba2": "mamba2",
    "jamba": "jamba",
    "llama4": "llama4",
    "llama4_text": "llama4",
    "olmo2": "olmo2",
    "olmo3": "olmo2",
    "exaone4": "exaone4",
    "smollm3": "smollm3",
    "starcoder2": "starcoder2",
    "stablelm": "stablelm",
    "gpt2": "gpt2",
    "gpt_neox": "gptneox",
    "minimax_m2": "minimax-m2",
    "kimi_linear": "kimi-linear",
    "t5": "t5",
    "bert": "bert",
    "roberta": "bert",
    "xlm-roberta": "bert",
    "modernbert": "modern-bert",
}

# Converters that append the draft head's blocks to the file (add_nextn_predict_layers).
MTP_IN_FILE = frozenset(
    """
    bailingmoe2 bailingmoe3 cohere2moe deepseek32 dots3note exaone-moe gemma4 glm-dsa glm4moe glm5-next hy_v3 hy_v4
    mimo2 nemotron_h_moe qwen3next qwen35 qwen35moe qwen4exp step35
    """.split()  # noqa: SIM905
)


# Context lengths that the converter writes whatever the config says: these models have no positions.
_CONTEXT = {"mamba": 2**20, "mamba2": 2**20, "nemotron_h_moe": 2**20}

# Falcon's class gives num_kv_heads one a query head; the converter reads that before multi_query.
_HEADS_OF_CLASS = frozenset({"falcon"})

# The converter looks for "E" layers only, so the dense layers of these patterns become recurrent ones in the file.
_MLP_AS_STATE = {"nemotron_h_moe": "-"}


@lru_cache(maxsize=1)
def _by_class() -> dict[str, str]:
    return {name: arch for arch, names in _CLASSES.items() for name in names.split()}


def gguf_architecture(profile: Profile) -> str | None:
    """The architecture in the GGUF file of this model: as stated, else what the converter would write; None if none."""
    stated = profile.fact("gguf_architecture")
    if stated:
        return str(stated)
    for name in (*profile.architectures, profile.fact("text_architecture")):
        if name in _by_class():
            return _by_class()[name]
    for kind in (profile.fact("text_model_type"), profile.model_type):
        if kind in _MODEL_TYPES:
            return _MODEL_TYPES[kind]
    return None


def is_file(profile: Profile) -> bool:
    """Whether the profile was read from a GGUF file: what the file says needs no converter."""
    return bool(profile.fact("gguf_architecture"))


def context_length(profile: Profile) -> int:
    """`context_length` of the file, 0 where nothing states one: trained positions, without rope scaling."""
    stated = profile.fact("max_model_len")
    if is_file(profile):
        return int(stated or 0)
    fixed = _CONTEXT.get(gguf_architecture(profile) or "")
    if fixed:
        return fixed
    if profile.fact("rope_scaling") and profile.fact("learned_positions"):
        return int(profile.fact("learned_positions"))
    return int(stated or 0)


def converted_layers(profile: Profile) -> tuple[Layer, ...]:
    """The layers as the converted file has them, where the converter reads the config differently from its class."""
    name = gguf_architecture(profile) or ""
    layers = profile.layers
    if is_file(profile):
        return layers
    if not any(layer.caches for layer in layers) and not arch_of(name).no_cache:
        layers = _causal(profile, layers)
    if name in _HEADS_OF_CLASS:
        heads = profile.fact("num_attention_heads")
        layers = tuple(Layer(tuple(_widened(c, heads) for c in layer.caches)) for layer in layers)
    pattern = profile.fact("hybrid_override_pattern")
    if name in _MLP_AS_STATE and isinstance(pattern, str) and len(pattern) == len(layers):
        state = next((x for x in layers if any(c.kind == "state" for c in x.caches)), Layer())
        layers = tuple(state if kind == _MLP_AS_STATE[name] else x for kind, x in zip(pattern, layers, strict=True))
    return layers


def _causal(profile: Profile, layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """An embedding model of a decoder's architecture: llama.cpp keeps its cache all the same."""
    heads = profile.fact("num_attention_heads")
    kv_heads = profile.fact("num_kv_heads") or heads
    dim = profile.fact("head_dim") or (profile.fact("hidden_size") // heads if heads else 0)
    if not (isinstance(kv_heads, int) and isinstance(dim, int) and kv_heads and dim):
        return layers
    return (Layer((FullAttention(num_kv_heads=kv_heads, k_dim=dim, v_dim=dim),)),) * len(layers)


def _widened(spec: CacheSpec, heads: Any) -> CacheSpec:
    if isinstance(spec, FullAttention) and spec.num_kv_heads == 1 and isinstance(heads, int):
        return FullAttention(num_kv_heads=heads, k_dim=spec.k_dim, v_dim=spec.v_dim)
    return spec
