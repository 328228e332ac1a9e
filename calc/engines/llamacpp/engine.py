"""The engine contract for llama.cpp: llama-server's memory on each card and on the host.

Every answer is computed from the resolved plan alone; `memory.footprint` does the arithmetic.
"""

from __future__ import annotations

from functools import partial

from calc.arithmetic import remarked
from calc.cards import Card
from calc.engines.llamacpp.estimate import Buffer
from calc.engines.llamacpp.fit import fitted_context, longest_context
from calc.engines.llamacpp.knobs import KNOBS, check_knobs, filled
from calc.engines.llamacpp.memory import Footprint, footprint
from calc.engines.llamacpp.model import LlamaModel, model_of
from calc.engines.llamacpp.placement import HOST
from calc.engines.llamacpp.refusals import refusals
from calc.engines.llamacpp.report import cache_plan, device_list
from calc.engines.llamacpp.settings import Settings, settings_of
from calc.engines.llamacpp.versions import version_of
from calc.engines.llamacpp.weights import weights_line
from calc.estimates.unstated import completed, unstated, widened, words
from calc.memo import remembered
from calc.plan import Plan
from calc.prediction import CachePlan, Device, Note, Reason, Resolved, Term
from calc.speculation import Speculation, speculation
from calc.weights import chosen_variant
from onboard.errors import FieldMissing, WeightsUnknown
from onboard.gguf.converter import context_length
from onboard.profile import Profile, WeightVariant
from onboard.values import Struct, replace

MIB = 2**20
RUNTIME_LOW, RUNTIME, RUNTIME_HIGH = 300 * MIB, 500 * MIB, 700 * MIB

UNNAMED = (
    "the config names no architecture: sized as its fields stand, which says nothing of whether llama.cpp loads it"
)


class LlamaCpp(Struct, frozen=True):
    """llama.cpp's llama-server. `knobs` are the plan fields it has."""

    name: str = "llamacpp"
    cards_knob = "gpus"
    knobs: frozenset[str] = KNOBS

    def resolve(self, profile: Profile, plan: Plan, card: Card, version: str | None) -> Resolved:
        check_knobs(plan)
        numbers, text = version_of(version)
        model = _model(profile)
        trained = _trained(profile)
        if plan.max_model_len is None and not trained:
            raise FieldMissing(
                f"{profile.id} states no context length", path="max_model_len", hint="give --ctx-size (--max-model-len)"
            )
        asked = plan.max_model_len or int(trained)
        full, notes = filled(plan, asked)
        resolved = Resolved(
            plan=full, engine=self.name, version=numbers, version_text=text, card=card, derived=_sequences(plan)
        )
        if plan.max_model_len is None:
            resolved, note = _fitted(profile, model, resolved, asked)
            notes += note
        settings = _settings(profile, model, resolved)
        derived = {
            "n_ctx": settings.n_ctx, "n_ctx_seq": settings.n_ctx_seq, "n_batch": settings.n_batch,
            "n_ubatch": settings.n_ubatch, "n_outputs": settings.n_outputs, "n_rs_seq": settings.n_rs_seq,
            "architecture": model.name, "kv_cache_dtype": "/".join(dict.fromkeys((settings.type_k, settings.type_v))),
        }  # fmt: skip
        if not (profile.model_type or profile.architectures or model.name):
            notes += (Note("architecture", UNNAMED),)
        reasons = refusals(model, settings, named=bool(profile.model_type or profile.architectures))
        reasons += _draft_refusals(model, speculation(profile, full))
        return replace(resolved, derived={**resolved.derived, **derived}, notes=notes, reasons=reasons)

    def fixed_terms(self, profile: Profile, resolved: Resolved) -> tuple[Term, ...]:
        held = _held(profile, resolved, _weights(profile, resolved.plan))
        device = held.fullest
        buffer = held.compute[device]
        terms = [
            _weights_term(profile, resolved, held),
            *_activation(profile, resolved, buffer, device),
            Term(
                name="runtime",
                bytes=RUNTIME,
                low_bytes=RUNTIME_LOW,
                high_bytes=RUNTIME_HIGH,
                inside_budget=False,
                origin="default",
                rule=f"{RUNTIME // MIB} MiB; the driver's context, cuBLAS's and flash attention's own",
            ),
        ]
        drafter = speculation(profile, resolved.plan)
        if drafter is not None and drafter.weights_bytes:
            terms.append(
                Term(
                    name="drafter",
                    bytes=drafter.weights_bytes,
                    rule=f"{drafter.weights_bytes:,} B; {drafter.name}",
                    origin="header",
                )
            )
        return tuple(terms)

    def budget_bytes(self, profile: Profile, resolved: Resolved) -> int:
        """Usable memory less what --fit keeps free; where --fit chose the context, less what it really left free."""
        budget = resolved.card.usable_bytes - (resolved.plan.fit_target_mib or 0) * MIB
        if not resolved.derived.get("fitted"):
            return budget
        held = _held(profile, resolved, _weights(profile, resolved.plan))
        used = held.total(held.fullest) + _drafter_bytes(profile, resolved.plan)
        return max(budget, min(used, resolved.card.usable_bytes - RUNTIME_HIGH))

    def cache(self, profile: Profile, resolved: Resolved, pool_bytes: int) -> CachePlan:
        weights = _weights(profile, resolved.plan)
        model = _model(profile)
        held = _held(profile, resolved, weights)
        sequences = int(resolved.derived["sequences"])
        single = _settings(profile, model, resolved, one=True)
        draft = _is_mtp(profile, resolved.plan)
        one = footprint(profile, model, single, draft=draft, buffers=False)
        budget = self.budget_bytes(profile, resolved) - _drafter_bytes(profile, resolved.plan)
        measure = partial(_at_length, profile, model, resolved, weights, draft)
        longest = _trained(profile) or held.settings.n_ctx
        key = ("longest", replace(resolved.plan, max_model_len=None), resolved.version, budget, longest)
        most = remembered(profile, key, lambda: longest_context(measure, longest, budget))
        return cache_plan(model, held, one, sequences, pool_bytes, most)

    def devices(
        self, profile: Profile, resolved: Resolved, terms: tuple[Term, ...], cache: CachePlan
    ) -> tuple[Device, ...]:
        return device_list(_held(profile, resolved, _weights(profile, resolved.plan)))


def _activation(profile: Profile, resolved: Resolved, buffer: Buffer, device: int) -> tuple[Term, ...]:
    """The compute buffer; where the model leaves a width out, from the least to the most of published models'."""
    term = Term(name="activation", bytes=buffer.bytes, low_bytes=buffer.low, high_bytes=buffer.high, rule=buffer.rule)
    missing = unstated(profile)
    if not missing:
        return (term,)
    low, _, high = (
        _held(each, resolved, _weights(profile, resolved.plan)).compute[device] for each in completed(profile)
    )
    ends = [(replace(term, low_bytes=end.low, high_bytes=end.high),) for end in (low, high)]
    return widened(ends[0], (term,), ends[1], words(missing))


def _sequences(plan: Plan) -> dict[str, int]:
    return {"sequences": plan.max_num_seqs or 1}


def _settings(profile: Profile, model: LlamaModel, resolved: Resolved, *, one: bool = False) -> Settings:
    plan = resolved.plan
    if one:
        plan = replace(plan, max_num_seqs=1, kv_unified=False)
    return settings_of(
        plan,
        n_ctx_train=_trained(profile),
        causal=not model.arch.no_cache,
        rollback=model.arch.rollback,
        swa_rule=resolved.version,
    )


def _weights(profile: Profile, plan: Plan) -> WeightVariant:
    """The variant the plan means; a stated size stands as one without a tensor list. Raises WeightsUnknown."""
    if plan.weights_gb is not None:
        size = round(plan.weights_gb * 10**9)
        return WeightVariant(name="stated", num_bytes=size, origin="option", where="--weights-gb")
    return chosen_variant(profile, plan.weights)


def _measure(profile: Profile, model: LlamaModel, settings: Settings, weights: WeightVariant, draft: bool) -> Footprint:
    def made() -> Footprint:
        stated = completed(profile)[1] if unstated(profile) else profile
        return footprint(stated, model, settings, variant=weights, draft=draft)

    return remembered(profile, ("footprint", settings, weights.name, weights.num_bytes, draft), made)


def _model(profile: Profile) -> LlamaModel:
    return remembered(profile, "llama.cpp model", lambda: model_of(profile))


def _trained(profile: Profile) -> int:
    return remembered(profile, "llama.cpp context length", lambda: context_length(profile))


def _held(profile: Profile, resolved: Resolved, weights: WeightVariant) -> Footprint:
    model = _model(profile)
    settings = _settings(profile, model, resolved)
    return _measure(profile, model, settings, weights, _is_mtp(profile, resolved.plan))


def _at_length(
    profile: Profile, model: LlamaModel, resolved: Resolved, weights: WeightVariant, draft: bool, length: int
) -> Footprint:
    plan = replace(resolved.plan, max_model_len=length)
    return _measure(profile, model, _settings(profile, model, replace(resolved, plan=plan)), weights, draft)


def _is_mtp(profile: Profile, plan: Plan) -> bool:
    drafter = speculation(profile, plan)
    return drafter is not None and drafter.method == "mtp"


def _draft_refusals(model: LlamaModel, drafter: Speculation | None) -> tuple[Reason, ...]:
    if drafter is None or drafter.method != "mtp":
        return ()
    if model.num_blocks == model.num_layers:
        return (Reason("drafter", f"llama.cpp's converter leaves the draft head of {model.name} out of the file"),)
    if model.arch.mtp_aborts:
        return (Reason("drafter", f"the draft head of {model.name} aborts in its graph: it requires fused attn_qkv"),)
    return ()


def _drafter_bytes(profile: Profile, plan: Plan) -> int:
    drafter = speculation(profile, plan)
    return (drafter.weights_bytes or 0) if drafter is not None else 0


def _fitted(profile: Profile, model: LlamaModel, resolved: Resolved, longest: int) -> tuple[Resolved, tuple[Note, ...]]:
    """--fit with no context given: the model's own, or what leaves the margin free."""
    plan = resolved.plan
    try:
        weights = _weights(profile, plan)
    except WeightsUnknown:
        return resolved, ()
    streams = 1 if plan.kv_unified else (plan.max_num_seqs or 1)
    measure = partial(_at_length, profile, model, resolved, weights, _is_mtp(profile, plan))
    budget = resolved.card.usable_bytes - (plan.fit_target_mib or 0) * MIB - _drafter_bytes(profile, plan)
    length = fitted_context(measure, longest * streams, streams, budget)
    text = f"--ctx-size not given: --fit takes {length}" + (
        f" of the model's {longest}" if length < longest * streams else ", the model's own"
    )
    derived = {**resolved.derived, "fitted": length < longest * streams}
    return replace(resolved, plan=replace(plan, max_model_len=length), derived=derived), (Note("default", text),)


def _weights_term(profile: Profile, resolved: Resolved, held: Footprint) -> Term:
    variant = _weights(profile, resolved.plan)
    device = held.fullest
    size = held.weights[device]
    where = "the host" if device == HOST else f"card {device}"
    parts = ", ".join(
        f"{'host' if d == HOST else f'gpu{d}'} {held.weights[d]:,}" for d in held.placement.devices if held.weights[d]
    )
    model, placement = model_of(profile), held.placement
    rule = f"{weights_line(variant, model, placement, held.settings, device)} on {where}"
    return Term(name="weights", bytes=size, origin=variant.origin, rule=remarked(rule, f"by device: {parts}"))


ENGINE = LlamaCpp()
