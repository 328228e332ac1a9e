"""What engines are given: terms of a plan, for every published config, by both activation models."""

from __future__ import annotations

import pytest

from calc import Plan, predict
from calc.cards import load_card
from calc.estimates import calibration_status, confidence, overhead_terms, trust
from calc.estimates.notes import verdict_share
from calc.estimates.tables import ENCODER_OF, ENCODERS
from calc.prediction import Prediction, Resolved, Term
from calc.units import GIB
from onboard.errors import FieldMissing, Refusal, UsageError
from onboard.open import inspect, load_profile
from onboard.profile import Profile
from onboard.values import replace
from tests.shared import SHARED, needs_shared

PLAN = Plan(tensor_parallel_size=2, max_model_len=262144, max_num_seqs=2, max_num_batched_tokens=8192)


def resolved(
    plan: Plan = PLAN, engine: str = "vllm", version: tuple[int, ...] = (0, 24, 0), card: str = "rtx-3090"
) -> Resolved:
    return Resolved(
        plan=plan, engine=engine, version=version, version_text=".".join(map(str, version)), card=load_card(card)
    )


def by_name(profile: Profile, state: Resolved) -> dict[str, Term]:
    terms = overhead_terms(profile, state)
    assert len({t.name for t in terms}) == len(terms)
    return {t.name: t for t in terms}


@pytest.fixture(scope="module")
def qwen() -> Profile:
    return load_profile("qwen3.6-27b")


def test_every_term_has_a_band_and_a_rule(qwen: Profile) -> None:
    terms = by_name(qwen, resolved())
    assert set(terms) == {"activation", "encoder", "cuda_graphs", "runtime", "context", "prefill"}
    for term in terms.values():
        assert 0 <= term.low <= term.bytes <= term.high
        assert term.high > term.low
        assert term.rule
    assert {t.name for t in terms.values() if not t.inside_budget} == {"context", "prefill"}


def test_graphs_stand_outside_before_0_20(qwen: Profile) -> None:
    assert not by_name(qwen, resolved(version=(0, 19, 1)))["cuda_graphs"].inside_budget


def test_language_model_only_has_no_encoder(qwen: Profile) -> None:
    text = Plan(**{**PLAN.given(), "language_model_only": True})
    assert "encoder" not in by_name(qwen, resolved(text))


def test_sglang_keeps_nothing_inside(qwen: Profile) -> None:
    terms = by_name(qwen, resolved(engine="sglang", version=(0, 5, 23)))
    assert not any(t.inside_budget for t in terms.values())
    assert terms["context"].bytes / GIB == pytest.approx(0.7, abs=0.1)  # 22.82 to 22.91 of 23.58 GiB free (boots)


@pytest.mark.parametrize(
    ("card", "sequences", "took"),
    [
        ("rtx-3090", 1, 0.06),
        ("rtx-3090", 4, 0.07),
        ("rtx-3090", 8, 0.09),
        ("dgx-spark", 1, 1.26),
        ("dgx-spark", 4, 0.58),
    ],
)
def test_sglangs_graphs_cover_what_boots_took(qwen: Profile, card: str, sequences: int, took: float) -> None:
    plan = Plan(engine="sglang", card=card, tensor_parallel_size=1, max_num_seqs=sequences, weights_gb=10)
    graphs = next(t for t in predict(qwen, plan).terms if t.name == "cuda_graphs")
    assert graphs.low <= took * GIB <= graphs.high and not graphs.inside_budget
    eager = next(t for t in predict(qwen, replace(plan, enforce_eager=True)).terms if t.name == "cuda_graphs")
    assert eager.high == 0


def test_sglangs_built_in_drafter_weighs_what_vllms_does(qwen: Profile) -> None:
    plan = Plan(tensor_parallel_size=2, max_model_len=32768, drafter="mtp", num_speculative_tokens=3, weights="config")
    sizes = [
        {t.name: t.bytes for t in predict(qwen, replace(plan, engine=name, card="h100-80gb")).terms}.get("drafter")
        for name in ("vllm", "sglang")
    ]
    assert sizes[0] == sizes[1] and sizes[0]


def test_families_of_encoders_are_in_the_table() -> None:
    assert set(ENCODER_OF.values()) <= set(ENCODERS)
    assert all(e.low <= e.gib <= e.high and e.source for e in ENCODERS.values())


# --- the specification's own model ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "tp", "kv", "length", "utilisation", "activation", "overhead"),
    [
        ("qwen3.6-27b", 2, "fp8_e5m2", 262144, 0.95, 0.818, 1.75),
        ("qwen3.6-27b", 4, "fp8_e5m2", 262144, 0.95, 0.409, 2.35),
        ("qwen3.6-27b", 2, "turboquant_3bit_nc", 262144, 0.95, 1.038, 1.75),
        ("qwen3.6-27b", 1, "turboquant_3bit_nc", 180000, 0.93, 1.426, 1.43),
        ("qwen3.6-27b", 2, "fp16", 185000, 0.95, 0.599, 1.75),
        ("gemma-4-31b", 2, "bf16", 32768, 0.92, 0.75, 1.72),
        ("gemma-4-26b-a4b", 2, "bf16", 32768, 0.92, 0.9, 1.72),
    ],
)
def test_the_specifications_figures_are_reproduced(
    model: str, tp: int, kv: str, length: int, utilisation: float, activation: float, overhead: float
) -> None:
    """In GB, as that page's own tool prints them for its rows."""
    plan = Plan(
        tensor_parallel_size=tp, kv_cache_dtype=kv, max_model_len=length, gpu_memory_utilization=utilisation,
        activation_model="specification",
    )  # fmt: skip
    terms = by_name(load_profile(model), resolved(plan))
    assert terms["activation"].bytes / 1e9 == pytest.approx(activation, abs=0.001)
    assert terms["runtime"].bytes / 1e9 == pytest.approx(overhead, abs=0.001)


def test_a_model_without_coefficients_is_refused(qwen: Profile) -> None:
    plan = Plan(activation_model="specification", max_model_len=4096)
    with pytest.raises(UsageError, match="no activation coefficient"):
        overhead_terms(replace(qwen, id="another"), resolved(plan))
    with pytest.raises(UsageError, match="no activation model is called 'guess'"):
        overhead_terms(qwen, resolved(Plan(activation_model="guess")))


@pytest.mark.parametrize("missing", ["vocab_size", "hidden_size"])
def test_a_missing_width_widens_the_estimate(qwen: Profile, missing: str) -> None:
    bare = replace(qwen, facts={k: v for k, v in qwen.facts.items() if k != missing})
    for plan in (Plan(max_num_seqs=256), Plan(max_num_seqs=256, kv_cache_memory_bytes=2**30)):
        whole = {t.name: t for t in overhead_terms(qwen, resolved(plan))}
        wide = {t.name: t for t in overhead_terms(bare, resolved(plan))}
        assert wide["activation"].low <= whole["activation"].bytes <= wide["activation"].high
        assert wide["activation"].high - wide["activation"].low > whole["activation"].high - whole["activation"].low
        assert f"{missing} not stated" in wide["activation"].rule


# --- trust ----------------------------------------------------------------------------------------------------------


def test_confidence_rises_with_headroom(qwen: Profile) -> None:
    shares = [confidence(qwen, resolved(), round(x * GIB)) for x in (-20, -1, 0, 1, 20)]
    assert shares == sorted(shares)
    assert shares[0] <= 0.02
    assert shares[2] == pytest.approx(0.5, abs=0.1)
    assert shares[-1] >= 0.98


def test_a_verdict_on_the_edge_says_how_many_boots_start() -> None:
    profile = load_profile("qwen3.6-27b")
    plan = Plan(engine="vllm@0.24", card="rtx-3090", max_num_seqs=1, max_model_len=4096, max_num_batched_tokens=2048)
    tried = [predict(profile, Plan(**{**plan.given(), "max_model_len": 2048 * i})) for i in range(1, 60)]
    edge = min(tried, key=lambda p: abs(p.headroom_bytes))
    notes = {n.kind: n.message for n in trust(profile, edge)}
    assert "comparable boots" in notes["confidence"]
    sure = predict(profile, Plan(**{**plan.given(), "card": "h100-80gb"}))
    assert "confidence" not in {n.kind for n in trust(profile, sure)}


def edge_of(profile: Profile, plan: Plan) -> list[Prediction]:
    """Predictions from well inside to well outside the card, by length."""
    return [predict(profile, Plan(**{**plan.given(), "max_model_len": 4096 * i})) for i in range(1, 40)]


EDGE = Plan(engine="vllm@0.24", card="rtx-3090", max_num_seqs=1, max_num_batched_tokens=2048, kv_cache_dtype="fp8_e5m2")


def test_the_share_falls_with_what_is_asked_and_turns_with_the_verdict() -> None:
    profile = load_profile("qwen3.6-27b")
    told = [(p.verdict, verdict_share(profile, p), p) for p in edge_of(profile, EDGE)]
    assert {v for v, _, _ in told} == {"PASS", "FAIL"}
    shares = [s for _, s, _ in told if s is not None]
    assert len(shares) == len(told) and shares == sorted(shares, reverse=True)
    assert min(s for v, s, _ in told if v == "PASS" and s) >= 0.4 and max(s for v, s, _ in told if v == "FAIL") <= 0.6


def test_the_verdict_line_carries_the_percentage_only_where_it_hangs_on_the_estimate() -> None:
    from calc.report import verdict_line

    profile = load_profile("qwen3.6-27b")
    for prediction in edge_of(profile, EDGE):
        share = verdict_share(profile, prediction)
        line = verdict_line(replace(prediction, notes=prediction.notes + trust(profile, prediction)))
        assert share is not None
        assert (f"{share:.0%} of comparable boots" in line) == (0.05 < share < 0.95), line
        assert line.startswith(prediction.verdict + ":")


def test_the_share_is_of_what_stands_inside_the_budget() -> None:
    """The engine's own check knows nothing of the CUDA context: half of the boots start with nothing left inside."""
    profile = load_profile("qwen3.6-27b")
    plan = replace(EDGE, weights_gb=17.5, kv_cache_dtype="auto")
    tried = [predict(profile, Plan(**{**plan.given(), "max_model_len": 1024 * i})) for i in range(1, 160)]
    at_edge = min(tried, key=lambda p: abs(p.headroom_inside_bytes))
    assert at_edge.headroom_bytes < at_edge.headroom_inside_bytes - 2**28
    assert verdict_share(profile, at_edge) == pytest.approx(0.5, abs=0.12)


def test_an_unsure_checkpoint_makes_the_share_less_sure() -> None:
    profile = load_profile("qwen3.6-27b")
    sure = next(p for p in edge_of(profile, EDGE) if p.verdict == "PASS")
    weights = next(t for t in sure.terms if t.name == "weights")
    spare = sure.cache.pool.bytes - sure.cache.asked.total
    wide = replace(weights, high_bytes=weights.bytes + 2 * spare)
    unsure = replace(sure, terms=tuple(wide if t is weights else t for t in sure.terms))
    before, after = verdict_share(profile, sure), verdict_share(profile, unsure)
    assert before is not None and after is not None and before > 0.9 and 0.4 < after < before - 0.1


def test_a_fixed_pool_hangs_on_nothing() -> None:
    profile = load_profile("qwen3.6-27b")
    assert verdict_share(profile, predict(profile, replace(EDGE, kv_cache_memory_bytes=2**32))) is None


def test_status_counts_anchors() -> None:
    assert calibration_status("qwen3.6-27b")["status"] == "calibrated"
    assert calibration_status("nothing") == {"status": "calibration pending", "num_anchors": 0, "error_bytes": None}


# --- every published config -----------------------------------------------------------------------------------------


@needs_shared
def test_every_config_gets_terms_or_a_refusal_that_names_a_field() -> None:
    refused = {}
    for path in sorted(SHARED.glob("corpus/*/config.json")):
        try:
            profile = inspect(str(path))
        except Refusal:
            continue  # what cannot be derived is another test's
        for engine in ("vllm", "sglang", "llamacpp"):
            try:
                terms = overhead_terms(profile, resolved(engine=engine))
            except FieldMissing as missing:
                refused[path.parent.name] = missing.path
                continue
            assert all(t.low <= t.bytes <= t.high for t in terms), path
            assert all(t.bytes < 64 * GIB for t in terms), path
    assert refused == {}
