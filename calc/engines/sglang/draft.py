"""Speculative decoding: which algorithm runs, what is charged to the target's cell, what the drafter's pool allocates.

Source: model_executor/pool_configurator.py and model_runner_components/spec_aux_hidden_state.py of the 0.5.23 wheel.
The charge scales the target's rows by layer counts, whatever heads the drafter has; a built-in head that the config
does not count under `num_nextn_predict_layers` is allocated and not charged.
"""

from __future__ import annotations

from calc.engines.sglang.layout import How, Layout, Row, layout
from calc.engines.sglang.settings import ALGORITHMS
from calc.engines.sglang.versions import Rules
from calc.plan import Plan
from calc.speculation import Speculation, speculation
from onboard.profile import Profile
from onboard.values import Struct


class Drafting(Struct, frozen=True):
    """`charged_layers` go into the target's cell; None: the drafter is charged its own rows."""

    algorithm: str | None = None
    spec: Speculation | None = None
    charged_layers: int = 0


class Charge(Struct, frozen=True):
    """Bytes a token added to the whole and window cells, and beside both; `row` is what the drafter's pool holds."""

    full: int = 0
    window: int = 0
    beside: int = 0
    row: Row | None = None

    @property
    def charged(self) -> bool:
        return bool(self.full or self.window or self.beside)


def drafting(profile: Profile, plan: Plan) -> Drafting:
    """What the plan's drafter means to SGLang."""
    spec = speculation(profile, plan)
    if spec is None:
        return Drafting()
    algorithm = ALGORITHMS.get(spec.method, "STANDALONE")
    if algorithm == "NGRAM":
        return Drafting(algorithm, spec)
    if algorithm == "NEXTN":
        counted = profile.facts.get("num_mtp_layers")
        return Drafting(
            algorithm,
            spec,
            len(spec.layers) if counted is not None and "num_nextn_predict_layers" in counted.where else 0,
        )
    return Drafting(algorithm, spec, len(spec.layers))


def charge(target: Layout, draft: Drafting, how: How, rules: Rules, *, hybrid_swa: bool) -> Charge:
    """What the drafter costs a token."""
    if draft.spec is None or not draft.spec.layers:
        return Charge()
    row = layout(draft.spec.layers, how, "float32").full
    n = draft.charged_layers
    if not rules.draft_in_cell or not n:
        return Charge(row=row)
    if draft.algorithm == "DFLASH" and rules.own_dflash_rows:
        return Charge(beside=row.cell, row=row) if hybrid_swa else Charge(full=row.cell, row=row)
    if hybrid_swa:
        built_in = draft.algorithm == "NEXTN"  # counted as window layers: the target's own config is asked
        per_full = target.full.cell // target.full.num_layers if target.full.num_layers else 0
        per_window = target.window.cell // target.window.num_layers if target.window.num_layers else 0
        return Charge(window=n * per_window, row=row) if built_in else Charge(full=n * per_full, row=row)
    layers = target.full.num_layers
    if not layers:
        return Charge(row=row)
    if target.full.index_bytes and rules.dsa_indexer == "computing":
        rest = target.full.cell - target.full.index_bytes
        index = max(row.index_bytes // max(1, row.num_layers), _one_index(draft, how))
        return Charge(full=int(rest * n / layers) + n * index, row=row)
    return Charge(full=int(target.full.cell * n / layers), row=row)


def _one_index(draft: Drafting, how: How) -> int:
    from calc.engines.sglang.layout import index_bytes
    from onboard.layers import Indexer

    assert draft.spec is not None
    found = [index_bytes(c, how, latent=True) for x in draft.spec.layers for c in x.caches if isinstance(c, Indexer)]
    return max(found, default=0)
