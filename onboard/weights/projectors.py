"""What joins a tower to the language model: one builder a way, found in one table.

Sources: the projectors of the models that `towers` names, vLLM 0.33 model_executor/models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onboard.values import Struct
from onboard.weights.matrix import Matrix, linear

LIMIT = 2**30  # beyond any width or depth


def first(tower: Mapping[str, Any], *names: str) -> Any:
    """The first of the keys that holds a size: a finite number above 0. 0 where none does."""
    return next((tower[n] for n in names if _is_size(tower.get(n))), 0)


def _is_size(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < LIMIT


class Joint(Struct, frozen=True):
    """The two ends: a tower's config and width, the whole config, and the language model's hidden size."""

    part: str
    tower: Mapping[str, Any]
    root: Mapping[str, Any]
    width: int
    text: int

    @property
    def wide(self) -> int:
        """The width of patches that are merged before they are projected."""
        stated = first(self.tower, "spatial_merge_size") or first(self.root, "spatial_merge_size", "downsample_factor")
        return self.width * int(stated or 2) ** 2

    @property
    def out(self) -> int:
        return int(first(self.tower, "out_hidden_size") or self.text)

    def mlp(self, name: str, columns: int, rows: int, *, bias: bool = False, copies: int = 1) -> list[Matrix]:
        """A linear layer that vLLM divides among cards as it divides an MLP."""
        return linear(f"{self.part}.mlp", f"{self.part}.{name}", columns, rows, bias=bias, copies=copies)

    def other(self, name: str, columns: int, rows: int, *, bias: bool = False) -> list[Matrix]:
        """A linear layer that every card holds whole."""
        return linear(f"{self.part}.other", f"{self.part}.{name}", columns, rows, bias=bias)


def _nothing(j: Joint) -> list[Matrix]:
    return []


def _plain(j: Joint) -> list[Matrix]:
    return j.other("projector", j.width, j.text)


def _merger(j: Joint) -> list[Matrix]:
    """Qwen-VL: one merger, and one for every layer whose features are stacked deep."""
    deep = j.tower.get("deepstack_visual_indexes")
    copies = 1 + (len(deep) if isinstance(deep, (list, tuple)) else 0)
    joined = j.mlp("merger", j.wide, j.wide, bias=True, copies=copies)
    return joined + j.mlp("merger", j.wide, j.out, bias=True, copies=copies)


def _patch_merger(j: Joint) -> list[Matrix]:
    joined = j.other("patch_merger", j.wide, j.width)
    return joined + j.mlp("projector", j.width, j.text) + j.mlp("projector", j.text, j.text)


def _internvl(j: Joint) -> list[Matrix]:
    middle = int(first(j.root, "projector_hidden_size") or j.text)
    return j.other("mlp1", 4 * j.width, middle, bias=True) + j.other("mlp1", middle, j.text, bias=True)


def _llama4(j: Joint) -> list[Matrix]:
    inner, into = int(first(j.tower, "intermediate_size")), int(first(j.tower, "projector_input_dim") or 4096)
    final = int(first(j.tower, "projector_output_dim") or into)
    joined = j.mlp("adapter", inner, into) + j.mlp("adapter", into, final)
    return joined + j.mlp("projector", int(first(j.tower, "vision_output_dim") or final), j.text)


def _muse(j: Joint) -> list[Matrix]:
    middle = int(first(j.root, "projector_hidden_size") or j.wide)
    joined = j.other("adapter", int(first(j.root, "out_hidden_size") or j.wide), middle)
    return joined + j.other("adapter", middle, middle) + j.other("projector", middle, j.text)


def _glm(j: Joint) -> list[Matrix]:
    """A strided convolution, a square matrix, a gated MLP."""
    inner = int(first(j.tower, "intermediate_size"))
    joined = j.other("downsample", j.wide, j.out, bias=True) + j.mlp("merger", j.out, j.out)
    return joined + j.mlp("merger", j.out, 3 * inner)


def _connector(j: Joint) -> list[Matrix]:
    return j.other("connector", j.width * int(first(j.root, "scale_factor") or 2) ** 2, j.text)


def _stacked(j: Joint) -> list[Matrix]:
    inner = int(first(j.tower, "intermediate_size", "encoder_ffn_dim"))
    return j.other("projector", inner, j.text) + j.other("projector", j.text, j.text)


def _window_merger(j: Joint) -> list[Matrix]:
    inner = 4 * int(first(j.tower, "intermediate_size"))
    joined = j.other("merger", 4 * j.width, inner, bias=True) + j.other("merger", inner, j.width, bias=True)
    joined += j.other("merger", 4 * j.width, 4 * j.width, bias=True)
    return joined + j.other("merger", 4 * j.width, j.text, bias=True)


def _mllama(j: Joint) -> list[Matrix]:
    return j.other("projector", int(first(j.tower, "vision_output_dim") or j.width), j.text, bias=True)


def _audio_mlp(j: Joint) -> list[Matrix]:
    joined = j.other("projector", j.width, j.width, bias=True)
    return joined + j.other("projector", j.width, int(first(j.tower, "output_dim") or j.text), bias=True)


def _two_layer(j: Joint) -> list[Matrix]:
    return j.other("projector", j.width, j.text, bias=True) + j.other("projector", j.text, j.text)


def _halved(j: Joint) -> list[Matrix]:
    """Aya Vision: merged patches through a gated layer, whose second half is the gate."""
    inner = int(first(j.root, "alignment_intermediate_size") or j.text)
    return j.mlp("projector", j.wide, inner, bias=True) + j.mlp("projector", inner // 2, j.text, bias=True)


def _resampler(j: Joint) -> list[Matrix]:
    """MiniCPM-V: attention from learned queries, and a square matrix."""
    queries = int(first(j.root, "query_num") or 64)
    joined = j.other("resampler.kv_proj", j.width, j.text) + j.other("resampler.attn", j.text, 5 * j.text)
    return joined + j.other("resampler.query", j.text, queries)


PROJECTORS: dict[str, Callable[[Joint], list[Matrix]]] = {
    "none": _nothing,
    "plain": _plain,
    "merger": _merger,
    "patch_merger": _patch_merger,
    "internvl": _internvl,
    "shuffled": _internvl,
    "llama4": _llama4,
    "muse": _muse,
    "glm": _glm,
    "connector": _connector,
    "stacked": _stacked,
    "window_merger": _window_merger,
    "mllama": _mllama,
    "audio_mlp": _audio_mlp,
    "two_layer": _two_layer,
    "halved": _halved,
    "resampler": _resampler,
}
# Composites whose projector is their own, whatever the tower; the rest take the tower's.
COMPOSITES: dict[str, str] = {
    **dict.fromkeys(
        ("llava", "llava_next", "llava_onevision", "llava_next_video", "vipllava", "video_llava"), "two_layer"
    ),
    "aya_vision": "halved",
    "cohere2_vision": "halved",
}
