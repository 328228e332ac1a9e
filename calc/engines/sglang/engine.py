"""The contract of `calc.engines.Engine`, answered for SGLang."""

from __future__ import annotations

from calc.cards import Card
from calc.engines.sglang import budget, cache
from calc.engines.sglang.draft import drafting
from calc.engines.sglang.kv_dtype import kv_dtype
from calc.engines.sglang.refuse import KNOBS, check_knobs, start_reasons
from calc.engines.sglang.settings import Settings, settle
from calc.engines.sglang.versions import parse, rules_for
from calc.plan import Plan
from calc.prediction import CachePlan, Device, Note, Resolved, Term
from onboard.profile import Profile
from onboard.values import asdict, replace


class Sglang:
    """The contract of `calc.engines.Engine`, answered for SGLang."""

    name = "sglang"
    cards_knob = "tensor_parallel_size"
    knobs = KNOBS

    def resolve(self, profile: Profile, plan: Plan, card: Card, version: str | None) -> Resolved:
        """Every knob filled in. Raises UnknownKnob, UnknownEngine (version) or FieldMissing (context length)."""
        check_knobs(plan)
        number = parse(version)
        rules = rules_for(number)
        draft = drafting(profile, plan)
        settings = settle(profile, plan, card, rules, algorithm=draft.algorithm, drafter_layers=draft.charged_layers)
        notes = []
        if rules.first != number:
            text = ".".join(map(str, rules.first))
            notes.append(Note("version-rules", f"rules of SGLang {text} stand in for {'.'.join(map(str, number))}"))
        if plan.mem_fraction_static is None:
            notes.append(
                Note("default", f"mem_fraction_static not given: {settings.mem_fraction_static:.3f} on this card")
            )
        if plan.max_model_len is None and profile.fact("max_model_len") is None:
            notes.append(Note("default", f"no context length stated: SGLang takes {settings.context_length}"))
        filled = replace(
            plan,
            max_model_len=settings.context_length,
            page_size=settings.page_size,
            mem_fraction_static=settings.mem_fraction_static,
            chunked_prefill_size=settings.chunked_prefill_size,
            swa_full_tokens_ratio=settings.swa_full_tokens_ratio,
            mamba_full_memory_ratio=settings.mamba_full_memory_ratio,
        )
        return Resolved(
            plan=filled,
            engine=self.name,
            version=number,
            version_text=version or ".".join(map(str, number)),
            card=card,
            derived={**asdict(settings), "kv_cache_dtype": kv_dtype(profile, plan, card, rules)},
            notes=tuple(notes),
            reasons=start_reasons(profile, plan, card, rules),
        )

    def fixed_terms(self, profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
        return budget.fixed_terms(profile, resolved, Settings.of(resolved.derived))

    def budget_bytes(self, profile: Profile, resolved: Resolved) -> int:
        return budget.budget_bytes(resolved, Settings.of(resolved.derived))

    def cache(self, profile: Profile, resolved: Resolved, pool_bytes: int) -> CachePlan:
        return cache.cache_plan(profile, resolved, pool_bytes)

    def devices(
        self, profile: Profile, resolved: Resolved, terms: tuple[Term, ...], cache: CachePlan
    ) -> tuple[Device, ...]:
        return ()


ENGINE = Sglang()
