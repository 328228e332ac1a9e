"""Overrides: what a path may name, what became of each entry, and the laws of merging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard import catalog
from onboard.check import check
from onboard.errors import BadOverride, BadYaml, DuplicateKey, Refusal
from onboard.layers import FullAttention, Layer, WindowAttention
from onboard.override_paths import known_paths, resolve
from onboard.overrides import Entry, merge, parse, refuse_conflicts
from onboard.profile import Deployment, DrafterRef, Profile, SourceRef, WeightVariant
from onboard.profile_text import render
from onboard.profile_yaml import to_data
from onboard.sourced import Sourced
from onboard.states import GatedDeltaNet
from onboard.status import status_of
from onboard.values import replace
from onboard.yamlio import load_text
from tests.commands import ROOT

FULL = FullAttention(num_kv_heads=4, k_dim=512, v_dim=512)
WINDOW = WindowAttention(num_kv_heads=16, k_dim=256, v_dim=256, window=1024)
STATE = GatedDeltaNet(num_k_heads=16, num_v_heads=48, k_dim=128, v_dim=128, conv_kernel=4)
PROFILE = Profile(
    id="x",
    source=SourceRef(kind="hub", name="org/x", revision="c" * 40),
    model_type="m",
    architectures=("A",),
    layers=(Layer((WINDOW,)), Layer((FULL,)), Layer((WINDOW,)), Layer((FULL, STATE)), Layer(())),
    facts={
        "max_model_len": Sourced(4096, "config", "max_position_embeddings"),
        "num_kv_heads": Sourced(16, "config", "k"),
    },
    weights=(
        WeightVariant(name="bf16", num_bytes=100, origin="listing", where="l"),
        WeightVariant(name="q4.k", num_bytes=30, origin="listing", where="l"),
    ),
    default_weights="bf16",
    drafters=(DrafterRef(name="d", method="eagle3", num_bytes=7),),
    deployments=(Deployment(name="dual/a", options={"tensor_parallel_size": 2}),),
)


def entry(path: str, was: Any, to: Any) -> Entry:
    return Entry(path, was, to, "because", "", "overrides/x.yaml")


def merged(*entries: Entry) -> tuple[Profile, list[str]]:
    profile, outcomes = merge(PROFILE, entries)
    return profile, [o.status for o in outcomes]


CASES: list[tuple[str, Any, Any]] = [
    ("facts.max_model_len", 4096, 2048),
    ("facts.vocab_size", None, 32000),
    ("facts.max_model_len", 4096, None),
    ("layers.full.v_dim", 512, 0),
    ("layers.window.window", 1024, 512),
    ("layers[0,2].num_kv_heads", 16, 8),
    ("layers[1,3].full.num_kv_heads", 4, 2),
    ("layers[3].conv_kernel", 4, 2),
    ("layers[3].state.ssm_dtype", "model", "float32"),
    ("layers[4]", [], [{"type": "FullAttention", "num_kv_heads": 1, "k_dim": 8, "v_dim": 8, "k_eq_v": False}]),
    ("weights.bf16.num_bytes", 100, 120),
    ("weights.q4.k.num_bytes", 30, 31),
    ("weights.int4", None, {"num_bytes": 25, "quantization": "gptq"}),
    ("weights.q4.k", {"num_bytes": 30}, None),
    ("default_weights", "bf16", "q4.k"),
    ("drafters.d.num_bytes", 7, 8),
    ("drafters.e", None, {"method": "dflash", "num_bytes": 9, "layers": [{"indices": "0-4", "caches": []}]}),
    ("deployments.dual/a.options.tensor_parallel_size", 2, 4),
    ("deployments.single", None, {"options": {"tensor_parallel_size": 1}}),
]


@pytest.mark.parametrize(("path", "was", "to"), CASES, ids=[c[0] for c in CASES])
def test_each_path_reads_what_it_replaces_and_writes_what_it_says(path: str, was: Any, to: Any) -> None:
    assert resolve(PROFILE, path).get(PROFILE) == was
    profile, statuses = merged(entry(path, was, to))
    assert statuses == ["active"]
    now = resolve(PROFILE, path).get(profile)
    assert now == to
    untouched = [
        p for p in known_paths(PROFILE) if not p.startswith(path) and not path.startswith(p) and "layers" not in p
    ]
    for other in untouched:
        assert resolve(PROFILE, other).get(profile) == resolve(PROFILE, other).get(PROFILE), other


@pytest.mark.parametrize(("path", "was", "to"), CASES, ids=[c[0] for c in CASES])
def test_merging_twice_is_merging_once(path: str, was: Any, to: Any) -> None:
    once, _ = merged(entry(path, was, to))
    twice, outcomes = merge(once, [entry(path, was, to)])
    assert twice == once
    assert [o.status for o in outcomes] == ["redundant"]


def test_merging_nothing_is_the_identity() -> None:
    assert merge(PROFILE, ()) == (PROFILE, ())


def test_several_additions_stand_beside_each_other() -> None:
    profile, statuses = merged(*(entry(f"weights.v{i}", None, {"num_bytes": i}) for i in range(1, 5)))
    assert statuses == ["active"] * 4
    assert [w.name for w in profile.weights] == ["bf16", "q4.k", "v1", "v2", "v3", "v4"]
    assert {w.origin for w in profile.weights} == {"listing", "override"}


@settings(deadline=None, max_examples=50)
@given(
    st.permutations(
        [
            c
            for c in CASES
            if c[0] in {"layers.full.v_dim", "layers.window.window", "weights.int4", "default_weights", "drafters.e"}
        ]
    )
)
def test_entries_that_do_not_meet_may_stand_in_any_order(cases: list[tuple[str, Any, Any]]) -> None:
    profile, statuses = merged(*(entry(*case) for case in cases))
    assert statuses == ["active"] * len(cases)
    ordered, _ = merged(*(entry(*case) for case in sorted(cases, key=lambda c: c[0])))
    assert (profile.layers, profile.weights, profile.default_weights, profile.drafters) == (
        ordered.layers,
        ordered.weights,
        ordered.default_weights,
        ordered.drafters,
    )


def test_an_overridden_value_says_so() -> None:
    profile, _ = merged(entry("layers.full.v_dim", 512, 0), entry("facts.max_model_len", 4096, 2048))
    assert profile.facts["max_model_len"] == Sourced(2048, "override", "overrides/x.yaml")
    assert profile.facts["layers.full.v_dim"].origin == "override"


def test_stale_and_redundant_entries_have_no_effect_and_are_named() -> None:
    profile, statuses = merged(entry("facts.max_model_len", 8192, 2048), entry("layers.window.window", 512, 1024))
    assert statuses == ["stale", "redundant"]
    assert (profile.facts, profile.layers) == (PROFILE.facts, PROFILE.layers)
    assert [w.kind for w in profile.warnings] == ["stale-override"]


@pytest.mark.parametrize(
    "paths",
    [
        ("facts.max_model_len", "facts.max_model_len"),
        ("layers.full.v_dim", "layers[1].v_dim"),
        ("layers[3]", "layers.state.conv_kernel"),
        ("layers.state.conv_kernel", "layers[3]"),
        ("weights.bf16", "weights.bf16.num_bytes"),
        ("deployments.dual/a.options", "deployments.dual/a.options.tensor_parallel_size"),
    ],
)
def test_two_claims_on_one_value_are_a_conflict_and_neither_is_applied(paths: tuple[str, str]) -> None:
    entries = [Entry(p, resolve(PROFILE, p).get(PROFILE), 1, "", "", "f") for p in paths]
    profile, outcomes = merge(PROFILE, entries)
    assert [o.status for o in outcomes] == ["conflict", "conflict"]
    assert profile == PROFILE
    with pytest.raises(BadOverride, match="two entries claim"):
        refuse_conflicts(outcomes, "overrides/x.yaml")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("max_model_len", "facts.max_model_len"),
        ("facts.max_model_length", "facts.max_model_len"),
        ("layers.full.vdim", "layers.full.v_dim"),
        ("layers.ful.v_dim", "layers.full.v_dim"),
        ("layers.latent.rope_dim", ""),
        ("layers.full.type", ""),
        ("weights.bf17.num_bytes", "weights.bf16.num_bytes"),
        ("weights.bf16.size", "weights.bf16"),
        ("layers[9].v_dim", "0 to 4"),
        ("layers[x].v_dim", "0-2"),
        ("layers", "layers.full.v_dim"),
        ("facts.num_kv_heads", "layers.<kind>.<field>"),
        ("facts", "facts"),
        ("", ""),
        ("nonsense.at.all", "paths begin with"),
        ("__class__", ""),
        ("source.name", ""),
    ],
)
def test_a_path_that_names_nothing_is_refused_with_the_nearest(path: str, hint: str) -> None:
    with pytest.raises(BadOverride) as refused:
        merged(entry(path, None, 1))
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("layers.full.num_kv_heads", -1),
        ("layers.full.num_kv_heads", "four"),
        ("layers.full.k_eq_v", 3),
        ("layers[4]", "none"),
        ("layers[4]", [{"type": "Magic"}]),
        ("weights.new", 17),
        ("weights.new", {"size": 17}),
        ("weights.bf16.num_bytes", "17 GB"),
        ("weights.bf16.num_bytes", -1),
        ("drafters.new", {"num_bytes": 3}),
        ("default_weights", 4),
        ("deployments.new", {"options": []}),
    ],
)
def test_a_value_that_cannot_stand_there_is_refused(path: str, to: Any) -> None:
    with pytest.raises(BadOverride):
        merged(entry(path, resolve(PROFILE, path).get(PROFILE), to))


@pytest.mark.parametrize(
    "text",
    [
        "model: x\noverrides: 3\n",
        "model: y\noverrides: []\n",
        "model: x\nset: []\n",
        "model: x\noverrides: [3]\n",
        "model: x\noverrides:\n- {path: facts.a, to: 1}\n",
        "model: x\noverrides:\n- {path: facts.a, was: 1, to: 1, reason: no}\n",
        "model: x\noverrides:\n- {path: 3, was: 1, to: 1}\n",
        "model: x\noverrides:\n- {path: facts.a, was: 1, to: 1, why: [1]}\n",
        "- 1\n",
    ],
)
def test_a_malformed_file_is_refused(text: str) -> None:
    with pytest.raises(BadOverride):
        parse(load_text(text, "x.yaml"), "overrides/x.yaml", "x")


def test_yaml_that_is_hostile_is_refused() -> None:
    bomb = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
    for text, kind in [
        (bomb, BadYaml),
        ("weights: {a: 1}\nweights: {b: 2}\n", DuplicateKey),
        ("a: !!python/object/apply:os.system ['true']\n", BadYaml),
        ("a: [" * 5000, BadYaml),
        ("a: 'unclosed\n", BadYaml),
        ("\x00", BadYaml),
    ]:
        with pytest.raises(kind):
            load_text(text, "x.yaml")
    with pytest.raises(Refusal):
        load_text("a: " + "9" * 5000, "x.yaml")


# --- the catalogue ----------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    (tmp_path / "profiles").mkdir()
    (tmp_path / "overrides").mkdir()
    data = {**to_data(PROFILE), "status": status_of(PROFILE, 0).to_json()}
    (tmp_path / "profiles" / "x.yaml").write_text(render(data))
    return tmp_path


def problems(home: Path, text: str, model_id: str = "x") -> set[tuple[str, str]]:
    (home / "overrides" / f"{model_id}.yaml").write_text(text)
    return (
        {(p.kind, p.path) for p in check(("x",), str(home))[1]}
        if model_id == "x"
        else {(p.kind, p.file) for p in check((), str(home))[1]}
    )


def test_check_finds_nothing_in_good_files(home: Path) -> None:
    assert (
        problems(home, "model: x\noverrides:\n- {path: facts.max_model_len, was: 4096, to: 2048, why: measured}\n")
        == set()
    )


def test_check_names_every_kind_of_problem(home: Path) -> None:
    text = """model: x
overrides:
- {path: facts.max_model_len, was: 8192, to: 2048, why: old}
- {path: layers.window.window, was: 1, to: 1024, why: done upstream}
- {path: layers.full.v_dim, was: 512, to: 0, why: ''}
- {path: "layers[1].k_dim", was: 512, to: 8, why: one}
- {path: layers.full.k_dim, was: 512, to: 8, why: two}
- {path: facts.nothing, was: 1, to: 2, why: typo}
- {path: default_weights, was: bf16, to: gone, why: typo}
"""
    assert problems(home, text) == {
        ("stale", "facts.max_model_len"),
        ("redundant", "layers.window.window"),
        ("no-reason", "layers.full.v_dim"),
        ("conflict", "layers[1].k_dim"),
        ("conflict", "layers.full.k_dim"),
        ("BadOverride", "facts.nothing"),
        ("unknown-default", "default_weights"),
    }


def test_check_finds_orphans_and_files_it_cannot_read(home: Path) -> None:
    assert ("orphan", "overrides/y.yaml") in problems(home, "model: y\noverrides: []\n", "y")
    assert problems(home, "model: x\nmodel: x\n") == {("DuplicateKey", "overrides/x.yaml")}


def test_check_holds_a_status_to_what_it_has_earned(home: Path) -> None:
    path = home / "profiles" / "x.yaml"
    path.write_text(
        path.read_text()
        .replace("name: config-verified", "name: calibrated")
        .replace("name: derived", "name: calibrated")
    )
    assert {p.kind for p in check(("x",), str(home))[1]} == {"dishonest-status"}


def test_check_names_a_value_changed_by_hand(home: Path) -> None:
    path = home / "profiles" / "x.yaml"
    path.write_text(path.read_text().replace("value: 4096", "value: 4097"))
    assert {(p.kind, p.path) for p in check(("x",), str(home))[1]} == {("hand-edited", "facts.max_model_len")}


def test_status_rules() -> None:
    hub = replace(PROFILE, facts={"max_model_len": Sourced(1, "config", "c")})
    assert status_of(hub, 0).name == "config-verified"
    assert status_of(hub, 3).name == "config-verified"
    assert status_of(hub, 4).name == "calibrated"
    assert (
        status_of(replace(hub, facts={"head_dim": Sourced(1, "class-default", "LlamaConfig.head_dim")}), 0).name
        == "derived"
    )
    assert status_of(replace(hub, source=SourceRef(kind="folder", name="org/x")), 0).name == "derived"
    assert (
        status_of(replace(hub, source=SourceRef(kind="folder", name="org/x", read_from="a page; verbatim")), 0).name
        == "config-verified"
    )
    assert (
        status_of(
            replace(hub, source=SourceRef(kind="folder", name="org/x", read_from="a page; reconstructed")), 0
        ).name
        == "derived"
    )


def test_a_users_override_stands_on_the_shipped_one(home: Path) -> None:
    below = catalog.load("gemma-4-31b", str(home))
    assert below.effective.default_weights == "autoround-int4"
    (home / "overrides" / "gemma-4-31b.yaml").write_text(
        "model: gemma-4-31b\noverrides:\n- {path: default_weights, was: autoround-int4, to: awq, why: mine}\n"
        "- {path: weights.awq.num_bytes, was: 24223615549, to: 24300000000, why: measured}\n"
    )
    above = catalog.load("gemma-4-31b", str(home))
    assert above.effective.default_weights == "awq"
    assert next(w.num_bytes for w in above.effective.weights if w.name == "awq") == 24_300_000_000
    assert above.generated == below.generated


def test_the_shipped_catalogue_has_no_problem(home: Path) -> None:
    _, found = check((), str(home / "nothing"))
    assert [p for p in found if p.kind != "dishonest-status"] == []
    assert sorted(p.stem for p in (ROOT / "overrides").glob("*.yaml")) == catalog.ids(str(home / "nothing"))
