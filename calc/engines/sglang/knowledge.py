"""What only SGLang's own code knows about an architecture: one entry in one table each, with its source.

Everything else is read from the layers. Files are `sglang/srt` of the 0.5.23 wheel unless a version is named.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

# Architectures whose windows get a pool of their own, for 0.5.9, 0.5.15 and 0.5.23
# (configs/model_config.py is_hybrid_swa_model of each wheel). Not listed: every layer is kept whole.
_SWA_0_5_9 = frozenset(
    {
        "Llama4ForConditionalGeneration",
        "GptOssForCausalLM",
        "MiMoV2FlashForCausalLM",
        "Step3p5ForCausalLM",
    }
)
_SWA_0_5_15 = _SWA_0_5_9 | frozenset(
    {
        "DeepseekV4ForCausalLM",
        "MiMoV2ForCausalLM",
        "Step3p7ForConditionalGeneration",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
        "LagunaForCausalLM",
        "UnlimitedOCRForCausalLM",
    }
)
_SWA_0_5_23 = _SWA_0_5_15 | frozenset(
    {
        "BeamForCausalLM",
        "GraniteSWAForCausalLM",
        "GraniteMoeSWAForCausalLM",
        "IQuestQ1ForCausalLM",
        "EmbeddingGemma2Model",
        "DiffusionGemmaForBlockDiffusion",
        "MellumForCausalLM",
        "MuseGlimmerForCausalLM",
        "MuseGlimmerForConditionalGeneration",
        "InklingForConditionalGeneration",
    }
)
HYBRID_SWA: tuple[frozenset[str], ...] = (_SWA_0_5_9, _SWA_0_5_15, _SWA_0_5_23)

# The model passes its window less the current token (models/*.py get_attention_sliding_window_size); others pass the
# window, or the attention chunk (model_runner_components/load_model_utils.py resolve_sliding_window_size).
WINDOW_WITHOUT_SELF = frozenset(
    {
        "GptOssForCausalLM",
        "Gemma4ForCausalLM",
        "Gemma4ForConditionalGeneration",
        "Gemma4UnifiedForConditionalGeneration",
        "DiffusionGemmaForBlockDiffusion",
        "MellumForCausalLM",
        "MuseGlimmerForCausalLM",
        "MuseGlimmerForConditionalGeneration",
        "InklingForConditionalGeneration",
        "BeamForCausalLM",
    }
)

# Hybrid-state architectures that keep extra state slots beside the radix cache and stay overlapped: by default none in
# 0.5.9, then those of 0.5.15 and 0.5.23 (arg_groups/overrides.py _MAMBA_EXTRA_BUFFER_ARCHS). Others take three slots.
_EXTRA_0_5_15 = frozenset(
    {
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen3NextForCausalLM",
        "InternS2PreviewForConditionalGeneration",
        "MiniCPMV4_6ForConditionalGeneration",
        "BailingMoeV2_5ForCausalLM",
        "FalconH1ForCausalLM",
        "GraniteMoeHybridForCausalLM",
        "NemotronHForCausalLM",
        "NemotronHPuzzleForCausalLM",
    }
)
_EXTRA_0_5_23 = _EXTRA_0_5_15 | frozenset(
    {
        "KimiLinearForCausalLM",
        "Qwen3_5MoeForCausalLM",
        "Qwen3_5ForCausalLM",
        "Qwen4ExpForConditionalGeneration",
        "MiniCPMV4_7ForConditionalGeneration",
        "BailingMoeV3ForCausalLM",
        "BailingMoeV3VLForConditionalGeneration",
        "Glm5NextForConditionalGeneration",
        "NemotronH_Omni_Reasoning_V3",
        "KimiK3ForConditionalGeneration",
        "InklingForConditionalGeneration",
    }
)
EXTRA_STATE_BUFFER: tuple[frozenset[str], ...] = (frozenset(), _EXTRA_0_5_15, _EXTRA_0_5_23)

# Towers are not loaded unless asked for (configs/model_config.py mm_disabled_models).
TEXT_ONLY_BY_DEFAULT = frozenset(
    {
        "Gemma3ForConditionalGeneration",
        "Llama4ForConditionalGeneration",
        "Step3VLForConditionalGeneration",
        "InklingForConditionalGeneration",
    }
)

# Multimodal although the text model's fields lie at the top of the config (configs/model_config.py
# multimodal_model_archs, those of them whose config is flat).
FLAT_MULTIMODAL = frozenset(
    {
        "DotsOCRForCausalLM",
        "DeepseekOCRForCausalLM",
        "MiMoV2ASRForCausalLM",
        "MiniCPMO",
        "MiniCPMV",
        "Phi4MMForCausalLM",
        "Qwen2VLForConditionalGeneration",
        "Qwen2_5_VLForConditionalGeneration",
        "Qwen3ASRForConditionalGeneration",
        "UnlimitedOCRForCausalLM",
        "WhisperForConditionalGeneration",
        "YiVLForCausalLM",
        "LlavaLlamaForCausalLM",
        "LlavaMistralForCausalLM",
        "LlavaQwenForCausalLM",
        "Grok1VForCausalLM",
        "Grok1AForCausalLM",
        "MultiModalityCausalLM",
    }
)

# Multimodal architectures that keep the prefill graph (configs/model_config.py
# multimodal_breakable_cuda_graph_supported_model_archs); Inkling's is of another kind and kept as well.
PREFILL_GRAPH_WITH_TOWERS = frozenset(
    {
        "MiniMaxM3SparseForConditionalGeneration",
        "MiniMaxM3SparseForCausalLM",
        "Cohere2VisionForConditionalGeneration",
        "Glm5NextForConditionalGeneration",
        "InternS2MobiusForConditionalGeneration",
        "PaddleOCRVLForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen4ExpForConditionalGeneration",
        "MuseGlimmerForConditionalGeneration",
        "MuseSparkForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "KimiK25ForConditionalGeneration",
        "InklingForConditionalGeneration",
    }
)
# The largest captured prefill, where the architecture sets one (arg_groups/cuda_graph_hook.py).
PREFILL_GRAPH_MAX: dict[str, int] = {"MuseGlimmerForCausalLM": 512, "MuseGlimmerForConditionalGeneration": 512}

# No chunked prefill (configs/model_config.py is_multimodal_chunked_prefill_supported).
NO_CHUNKED_PREFILL = frozenset(
    {
        "Grok1VForCausalLM",
        "Grok1AForCausalLM",
        "LlavaLlamaForCausalLM",
        "MllamaForConditionalGeneration",
        "MossVLForConditionalGeneration",
        "CLIPModel",
    }
)

# Default ratios that an architecture changes (arg_groups/model_overrides/inkling.py).
SWA_RATIO: dict[str, float] = {"InklingForConditionalGeneration": 0.1}
STATE_RATIO: dict[str, float] = {"InklingForConditionalGeneration": 0.1}

# On compute capability 10: latent attention that pages by 64 (trtllm_mla: arg_groups/model_overrides/deepseek_v2.py,
# kimi_k3.py), and hybrids that stay at pages of one token (run, design of the 0.5.23 wheel).
PAGED_LATENT_SM100 = frozenset(
    {
        "DeepseekV3ForCausalLM",
        "KimiK25ForConditionalGeneration",
        "MistralLarge3ForCausalLM",
        "PixtralForConditionalGeneration",
        "LongcatFlashForCausalLM",
        "KimiK3ForConditionalGeneration",
    }
)
UNPAGED_SM100 = frozenset(
    {
        "Qwen3NextForCausalLM",
        "Qwen3_5MoeForConditionalGeneration",
        "Qwen3_5ForConditionalGeneration",
        "InternS2PreviewForConditionalGeneration",
        "InternS2MobiusForConditionalGeneration",
    }
)
# Keep DSA's scaled fp8 rows on compute capability 12 (arg_groups/overrides.py is_glm_sm12_fp8).
SCALED_LATENT_SM120 = frozenset({"GlmMoeDsaForCausalLM"})

# (steps, top-k, draft tokens) when not given (arg_groups/speculative_hook.py _auto_choose_speculative_params).
SPECULATIVE_STEPS: dict[str, tuple[int, int, int]] = {
    "LlamaForCausalLM": (5, 4, 8),
    "Grok1ForCausalLM": (5, 4, 8),
    "Grok1VForCausalLM": (5, 4, 8),
}

# Large Hopper cards pass images over CUDA IPC and reserve its buffer instead of the embedding cache
# (arg_groups/model_overrides/qwen3_vl.py).
IPC_FEATURES_ON_HOPPER = frozenset({"Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration"})

# Hybrid-state architectures with a model of their own (sglang/srt/models, EntryClass); others cannot be served.
NATIVE_STATE = _EXTRA_0_5_23 | frozenset(
    {
        "Lfm2ForCausalLM",
        "Lfm2MoeForCausalLM",
        "Lfm2VlForConditionalGeneration",
        "JetNemotronForCausalLM",
        "JetVLMForConditionalGeneration",
        "ZayaForCausalLM",
        "NemotronH_Nano_VL_V2",
        "NemotronH_Nano_Omni_Reasoning_V3",
        "Mamba2ForCausalLM",
        "MambaForCausalLM",
        "FalconMambaForCausalLM",
        "KimiK3LinearForCausalLM",
        "MiniCPMSALAForCausalLM",
        "GigaChat35ForCausalLM",
    }
)


# Encoder-decoder models it serves (configs/model_config.py is_encoder_decoder_model).
CROSS_ATTENTION = frozenset(
    {"WhisperForConditionalGeneration", "MllamaForConditionalGeneration", "MossVLForConditionalGeneration"}
)


def listed(architectures: Iterable[str], table: Container[str]) -> bool:
    """Whether any of the model's architectures stands in the table."""
    return any(a in table for a in architectures)


def speculative_steps(architectures: Iterable[str]) -> tuple[int, int, int]:
    """Steps, top-k and draft tokens when not given."""
    return next((SPECULATIVE_STEPS[a] for a in architectures if a in SPECULATIVE_STEPS), (3, 1, 4))
