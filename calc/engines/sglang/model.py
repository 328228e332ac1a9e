"""The model as SGLang's pools see it: the fullest card's layout, what a drafter adds to it, the window it passes."""

from __future__ import annotations

from calc.engines.sglang import knowledge
from calc.engines.sglang.draft import Charge, Drafting, charge
from calc.engines.sglang.layout import How, Layout, layout, stages
from calc.engines.sglang.settings import Settings
from calc.engines.sglang.versions import Rules
from calc.kv_formats import kv_format
from calc.prediction import Resolved
from onboard.layers import ChunkedAttention, WindowAttention, WindowLatent
from onboard.profile import Profile
from onboard.values import Struct, replace


class Model(Struct, frozen=True):
    """Bytes a token of the whole and the window pool, a drafter's charge; `window` in tokens, where it has a pool."""

    layout: Layout
    charge: Charge
    window: int | None

    @property
    def full_cell(self) -> int:
        return self.layout.full.cell + self.charge.full

    @property
    def window_cell(self) -> int:
        return self.layout.window.cell + self.charge.window

    @property
    def token_bytes(self) -> int:
        """What each further token of a request is charged, outside its window."""
        return self.full_cell + self.charge.beside

    def request_window(self, length: int, page: int) -> int:
        """Window tokens that a request of `length` holds: prefill asks for the window and a page."""
        return min(length, (length if self.window is None else self.window) + page)


def how_of(settings: Settings, rules: Rules) -> How:
    """How rows are stored under these settings."""
    form = kv_format(settings.kv_format)
    return How(
        kv=form,
        attn_tp=settings.attention_tensor_parallel_size,
        split_windows=settings.hybrid_swa,
        scaled_latent=settings.scaled_latent and form.name == "fp8_e4m3",
        v_head_dim=rules.v_head_dim,
        index_every=rules.dsa_indexer == "every",
        no_index=rules.dsa_indexer == "none",
    )


def model_of(profile: Profile, resolved: Resolved, settings: Settings, rules: Rules, draft: Drafting) -> Model:
    """The pipeline stage that holds the largest cell, with the largest stage's share of a state slot."""
    how, pp = how_of(settings, rules), resolved.plan.pipeline_parallel_size
    spans = [None] if pp == 1 else [*stages(len(profile.layers), pp)]
    found = [layout(profile.layers, how, settings.state_dtype, span) for span in spans]
    fullest = max(found, key=lambda x: (x.full.cell + x.window.cell, x.slot.bytes))
    fullest = replace(fullest, slot=max((x.slot for x in found), key=lambda s: s.bytes))
    added = charge(fullest, draft, how, rules, hybrid_swa=settings.hybrid_swa)
    return Model(fullest, added, _passed_window(profile) if settings.hybrid_swa else None)


def _passed_window(profile: Profile) -> int | None:
    """The window that the model passes to the pools, or its attention chunk."""
    caches = [spec for spec, _ in profile.cache_groups]
    windows = [c.window for c in caches if isinstance(c, (WindowAttention, WindowLatent))]
    if windows:
        return max(windows) - knowledge.listed(profile.architectures, knowledge.WINDOW_WITHOUT_SELF)
    return max((c.chunk for c in caches if isinstance(c, ChunkedAttention)), default=None)
