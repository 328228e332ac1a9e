"""Draft models: what kind of draft a config is, and what it takes from the model that it drafts for.

A draft's own layers come from its config like any model's. Recorded as facts where the config is a draft's:
`draft_method` (EAGLE, EAGLE-3, DFlash, DSpark, ...) and `draft_shares` (what it reads of the target instead of holding
its own). Sources: vLLM 0.33 `config/speculative.py` (methods), `v1/spec_decode/` (sharing of embeddings and head);
transformers 5.24 `models/gemma4_assistant`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onboard.facts import Facts
from onboard.values import Struct

EMBEDDINGS, HEAD, KV_CACHE = "embeddings", "output head", "KV cache"


class DraftMark(Struct, frozen=True):
    """`keys`: config keys that only this kind has (all of them); `architecture`: a part of the class's name."""

    method: str
    shares: tuple[str, ...]
    keys: tuple[str, ...] = ()
    architecture: str = ""
    attends: bool = True  # whether it has attention layers of its own

    def fits(self, config: Mapping[str, Any]) -> bool:
        if self.keys and all(_at(config, key) is not None for key in self.keys):
            return True
        listed = config.get("architectures")
        names = [name for name in listed if isinstance(name, str)] if isinstance(listed, (list, tuple)) else []
        return bool(self.architecture) and any(self.architecture in name.lower() for name in names)


# The first that fits. Narrower kinds stand first: a DSpark file also has a DFlash file's keys.
DRAFT_MARKS: tuple[DraftMark, ...] = (
    DraftMark("dspark", (EMBEDDINGS, HEAD), keys=("dflash_config.confidence_head_alpha",), architecture="dspark"),
    DraftMark("dflash", (EMBEDDINGS, HEAD), keys=("dflash_config",), architecture="dflash"),
    DraftMark("peagle", (EMBEDDINGS,), architecture="peagle"),
    DraftMark("eagle3", (EMBEDDINGS,), keys=("eagle_config",), architecture="eagle3"),
    DraftMark("eagle3", (EMBEDDINGS,), keys=("draft_vocab_size",)),
    DraftMark("eagle", (EMBEDDINGS, HEAD), architecture="eagle"),
    DraftMark("assistant", (EMBEDDINGS, KV_CACHE), keys=("backbone_hidden_size",), architecture="assistantfor"),
    DraftMark("medusa", (), keys=("medusa_num_heads",), architecture="medusa", attends=False),
    DraftMark("mlp_speculator", (), keys=("n_predict", "inner_dim"), architecture="mlpspeculator", attends=False),
)

# vLLM tells a draft by its repository's name where the config is an ordinary model's (config/speculative.py).
NAME_MARKS: tuple[tuple[str, str], ...] = (("eagle3", "eagle3"), ("eagle-", "eagle"), ("dflash", "dflash"))


def draft_mark(facts: Facts) -> DraftMark | None:
    """What kind of draft the config is, None for a model of its own."""
    return next((mark for mark in DRAFT_MARKS if mark.fits(facts.root)), None)


def attends(facts: Facts) -> bool:
    """Whether the config has attention layers at all; a caution says so where a draft is heads on its target alone."""
    mark = draft_mark(facts)
    if mark is None or mark.attends:
        return True
    facts.caution(
        "no-cache", "architectures", f"a {mark.method} draft is output heads on its target and keeps no cache"
    )
    return False


def record_draft(facts: Facts) -> None:
    """Note what kind of draft the config is, if it is one."""
    mark = draft_mark(facts)
    if mark is None:
        return
    where = "architectures, or keys that only such drafts have"
    facts.record("draft_method", mark.method, where)
    if mark.shares:
        facts.record("draft_shares", ", ".join(mark.shares), f"what {mark.method} drafts read of their target")


def _at(config: Mapping[str, Any], path: str) -> Any:
    value: Any = config
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value
