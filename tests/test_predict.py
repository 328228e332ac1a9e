"""What a prediction promises: terms add up to the byte, verdicts follow the rule, nothing falls as more is asked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from calc.plan import Plan
from calc.predict import predict
from onboard.open import load_profile
from onboard.values import replace
from tests.test_solve import MODELS, PLANS, sized

LENGTHS = st.sampled_from([1, 4096, 32768, 131072, 262144])


@settings(max_examples=40, deadline=None)
@given(model=st.sampled_from(MODELS), plan=PLANS, length=LENGTHS, seqs=st.sampled_from([None, 1, 4, 64]))
def test_terms_add_up_and_the_cache_is_sequences_times_one_request(
    model: str, plan: Plan, length: int, seqs: int | None
) -> None:
    plan = replace(sized(plan), max_model_len=length, max_num_seqs=seqs)
    answer = predict(load_profile(model), plan).to_json()
    terms = {t["name"]: t["bytes"] for t in answer["terms"]}
    assert sum(t["bytes"] for t in answer["terms"]) == answer["needed_bytes"]
    if plan.engine.startswith("vllm"):
        cache = sum(terms[n] for n in ("kv_growing", "kv_window", "state", "kv_padding"))
        assert cache == (seqs or 1) * answer["cache"]["request_bytes"]
    assert all(t["low_bytes"] <= t["bytes"] <= t["high_bytes"] for t in answer["terms"])
    assert answer["minimum_bytes"] <= answer["needed_bytes"]
    assert answer["reasons"] if answer["verdict"] == "FAIL" else answer["verdict"] in ("PASS", "TIGHT")
    assert answer["headroom_bytes"] == answer["budget_bytes"] - answer["minimum_bytes"]
    if any(r["kind"] == "memory" for r in answer["reasons"]) and answer["verdict"] == "FAIL":
        assert answer["headroom_bytes"] < 0


@settings(max_examples=40, deadline=None)
@given(model=st.sampled_from(MODELS), plan=PLANS)
def test_need_never_falls_as_context_and_sequences_grow(model: str, plan: Plan) -> None:
    profile, plan = load_profile(model), sized(plan)
    by_length = [predict(profile, replace(plan, max_model_len=n)).needed_bytes for n in (1024, 8192, 65536, 262144)]
    by_seqs = [predict(profile, replace(plan, max_model_len=8192, max_num_seqs=n)).needed_bytes for n in (1, 2, 8, 64)]
    assert by_length == sorted(by_length)
    assert by_seqs == sorted(by_seqs)


def test_predict_of_a_catalogued_model_imports_nothing_heavy() -> None:
    code = (
        "import sys; sys.argv='calc predict qwen3.6-27b --tp 2 --card rtx-3090'.split()\n"
        "from calc.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = ('transformers', 'huggingface_hub', 'ruamel.yaml', 'rich', 'jsonschema', 'torch')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    root = Path(__file__).resolve().parent.parent
    for _ in range(2):  # the first run may fill the parse cache
        done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
