"""What only a family's code knows and no config states, one entry a family, with its source. Data, no rules."""

from __future__ import annotations

from onboard.profile import Profile
from onboard.values import Struct


class Encoder(Struct, frozen=True):
    """What an encoder's profile run adds to the text model's activation peak, in GiB: `gib` for image and video as
    served by default, `low` to `high` where 90 % of boots lie. `source` names the boots or the code.
    """

    gib: float
    low: float
    high: float
    source: str


ENCODERS: dict[str, Encoder] = {
    "qwen2-vl": Encoder(
        4.0,
        2.0,
        5.2,
        "encoder profiled at 16,384 tokens a modality: 2.47 GiB with images only, 4.93 with video (boots)",
    ),
    "qwen2.5-omni": Encoder(4.0, 2.4, 5.5, "thinker 5.48 GiB in all (boot); image and video at 16,384 tokens each"),
    "qwen3-vl": Encoder(2.6, 1.5, 3.4, "+2.6 to +2.7 GiB on 0.12 (boots)"),
    "qwen3.5": Encoder(0.3, 0.0, 1.6, "nothing on B300 boots that differ only in sequences; +0.5 on A100 TP 2"),
    "gemma-3": Encoder(0.23, 0.05, 0.45, "+0.21 to +0.26 GiB (H100 boots, 0.17 to 0.19)"),
    "gemma-4": Encoder(0.2, 0.0, 0.7, "as gemma-3: a fixed budget of soft tokens an image"),
    "mistral-small": Encoder(0.12, 0.0, 0.35, "+0.12 GiB (H100 boot)"),
    "kimi-vl": Encoder(0.15, 0.0, 0.4, "+0.1 to +0.2 GiB (H100 boots)"),
    "llama-4": Encoder(0.16, 0.0, 0.4, "+0.16 GiB (H100 boot)"),
    "granite-vision": Encoder(0.06, 0.0, 0.3, "+0.06 GiB (H100 boot)"),
    "other": Encoder(0.2, 0.0, 1.5, "no boot of this family: the middle of the others, and wide"),
}

ENCODER_OF: dict[str, str] = {
    "Qwen2VLForConditionalGeneration": "qwen2-vl",
    "Qwen2_5_VLForConditionalGeneration": "qwen2-vl",
    "Qwen2_5OmniModel": "qwen2.5-omni",
    "Qwen2_5OmniForConditionalGeneration": "qwen2.5-omni",
    "Qwen3VLForConditionalGeneration": "qwen3-vl",
    "Qwen3VLMoeForConditionalGeneration": "qwen3-vl",
    "Qwen3_5ForConditionalGeneration": "qwen3.5",
    "Qwen3_5MoeForConditionalGeneration": "qwen3.5",
    "Gemma3ForConditionalGeneration": "gemma-3",
    "Gemma4ForConditionalGeneration": "gemma-4",
    "Gemma4UnifiedForConditionalGeneration": "gemma-4",
    "Mistral3ForConditionalGeneration": "mistral-small",
    "KimiVLForConditionalGeneration": "kimi-vl",
    "Llama4ForConditionalGeneration": "llama-4",
    "LlavaNextForConditionalGeneration": "granite-vision",
}

# Encoders without a boot of their own: the family `other`, with its wide band.
ENCODER_OF |= dict.fromkeys(
    (
        "Gemma3nForConditionalGeneration",
        "InternVLChatModel",
        "KimiK25ForConditionalGeneration",
        "KimiK3ForConditionalGeneration",
        "Lfm2VlForConditionalGeneration",
        "LlavaForConditionalGeneration",
        "LlavaLlamaModel",
        "MiniCPMV",
        "MiniCPMV4_6ForConditionalGeneration",
        "MllamaForConditionalGeneration",
        "MuseGlimmerForConditionalGeneration",
        "Qwen2AudioForConditionalGeneration",
        "Qwen3ASRForConditionalGeneration",
        "Step3VLForConditionalGeneration",
        "WhisperForConditionalGeneration",
    ),
    "other",
)

# Heads that return no logits, so no sampler runs: vLLM's pooling models (vllm/model_executor/models/registry.py).
_POOLING_ENDS = ("ForSequenceClassification", "ForTokenClassification", "ForRewardModel", "ForMaskedLM")
_POOLING = (
    "BertModel",
    "CLIPModel",
    "GteModel",
    "GteNewModel",
    "MPNetModel",
    "ModernBertModel",
    "NomicBertModel",
    "RobertaModel",
    "XLMRobertaModel",
)

# MLPs of two matrices instead of three (vLLM's model files); the peak then holds one buffer of the MLP's width less.
_UNGATED = (
    "OPTForCausalLM",
    "PhiForCausalLM",
    "GPT2LMHeadModel",
    "GPTNeoXForCausalLM",
    "Starcoder2ForCausalLM",
    "FalconForCausalLM",
)


def encoder_family(profile: Profile) -> str:
    """The encoder family of a model, `other` for an encoder with no entry, "" for a text model."""
    for name in profile.architectures:
        if name in ENCODER_OF:
            return ENCODER_OF[name]
    roles = {g.role.split(".")[0] for w in profile.weights for g in w.groups}
    return "other" if roles & {"vision", "audio"} else ""


def is_pooling(architectures: tuple[str, ...]) -> bool:
    """Whether a class embeds or classifies: it samples no token."""
    return any(a in _POOLING or a.endswith(_POOLING_ENDS) for a in architectures)


def is_ungated(architectures: tuple[str, ...]) -> bool:
    """Whether a class's MLP has no gate."""
    return any(a in _UNGATED for a in architectures)
