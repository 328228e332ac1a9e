"""Profile files: the identity both ways, stable text, and nothing a person wrote is ever lost."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard import onboarding, ranges
from onboard.errors import BadProfile, Caution, NotWritable, Refusal
from onboard.layers import CrossAttention, FullAttention, Indexer, LatentAttention, Layer, SharedWith, WindowAttention
from onboard.plain_data import packed, unpacked
from onboard.profile import Deployment, DrafterRef, Profile, SourceRef, TensorGroup, WeightVariant
from onboard.profile_text import render, rewrite
from onboard.profile_yaml import from_data, to_data
from onboard.read import proposed_id, read_source
from onboard.sourced import Sourced
from onboard.states import GatedDeltaNet
from onboard.yamlio import load_text
from tests.commands import ROOT, run
from tests.shared import SHARED, needs_shared
from tests.tiny_model import CONFIG


def folder(root: Path, name: str = "org__tiny", **changes: Any) -> Path:
    made = root / name
    made.mkdir(exist_ok=True)
    (made / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    return made


# --- the identity ----------------------------------------------------------------------------------------------------

specs = st.one_of(
    st.builds(
        FullAttention,
        num_kv_heads=st.integers(1, 64),
        k_dim=st.integers(1, 512),
        v_dim=st.integers(0, 512),
        k_eq_v=st.booleans(),
    ),
    st.builds(
        WindowAttention,
        num_kv_heads=st.integers(1, 64),
        k_dim=st.integers(1, 512),
        v_dim=st.integers(0, 512),
        window=st.integers(1, 2**20),
    ),
    st.builds(LatentAttention, latent_dim=st.integers(1, 1024), rope_dim=st.integers(0, 256)),
    st.builds(Indexer, elements_per_entry=st.integers(1, 256), tokens_per_entry=st.integers(1, 128)),
    st.builds(SharedWith, layer=st.integers(0, 100)),
    st.builds(
        CrossAttention,
        num_kv_heads=st.integers(1, 9),
        k_dim=st.just(64),
        v_dim=st.just(64),
        num_encoder_tokens=st.none() | st.integers(1, 9),
    ),
    st.builds(
        GatedDeltaNet,
        num_k_heads=st.integers(1, 64),
        num_v_heads=st.integers(1, 64),
        k_dim=st.just(128),
        v_dim=st.just(128),
        conv_kernel=st.integers(1, 5),
        ssm_dtype=st.sampled_from(["model", "float32"]),
    ),
)
layers = st.lists(st.lists(specs, max_size=2).map(lambda c: Layer(tuple(c))), max_size=12).map(tuple)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers(0, 2**60) | words
values = scalars | st.lists(scalars, max_size=20).map(tuple)
names = st.text("abcdefghij_-.0123456789", min_size=1, max_size=12)
groups = st.builds(
    TensorGroup,
    role=words,
    num_bytes=st.integers(0, 2**50),
    num_elements=st.integers(0, 2**50),
    dtype=words,
    layers=st.sets(st.integers(0, 200)).map(lambda s: tuple(sorted(s))),
    num_units=st.integers(0, 9),
)
profiles = st.builds(
    Profile,
    id=st.just("x"),
    source=st.builds(
        SourceRef, kind=st.just("hub"), name=words, revision=st.none() | words, read_from=words, location=words
    ),
    model_type=words,
    architectures=st.lists(words, max_size=3).map(tuple),
    layers=layers,
    mtp_layers=layers,
    facts=st.dictionaries(
        names,
        st.builds(Sourced, value=values, origin=st.sampled_from(["config", "rule", "class-default"]), where=words),
        max_size=6,
    ),
    weights=st.lists(
        st.builds(
            WeightVariant,
            name=names,
            num_bytes=st.integers(0, 2**50),
            origin=words,
            where=words,
            groups=st.lists(groups, max_size=3).map(tuple),
        ),
        max_size=3,
        unique_by=lambda w: w.name,
    ).map(tuple),
    default_weights=st.none() | names,
    drafters=st.lists(
        st.builds(
            DrafterRef,
            name=names,
            method=words,
            num_bytes=st.none() | st.integers(0, 2**40),
            layers=layers,
            source=st.none() | words,
        ),
        max_size=2,
    ).map(tuple),
    deployments=st.lists(
        st.builds(
            Deployment, name=names, options=st.dictionaries(names, scalars, max_size=3), source=st.none() | words
        ),
        max_size=2,
    ).map(tuple),
    warnings=st.lists(st.builds(Caution, kind=words, where=words, message=words), max_size=2).map(tuple),
)


@settings(deadline=None)
@given(profiles)
def test_profile_to_data_to_profile_is_the_identity(profile: Profile) -> None:
    assert from_data(json.loads(json.dumps(to_data(profile)))) == profile


@settings(deadline=None, max_examples=25)
@given(profiles)
def test_profile_to_text_to_profile_is_the_identity_and_the_text_is_stable(profile: Profile) -> None:
    text = render(to_data(profile))
    back = from_data(load_text(text, "x"))
    assert back == profile
    assert render(to_data(back)) == text
    assert rewrite(text, to_data(profile)) == text


NASTY = st.text(st.sampled_from("  aaab\x85\x00\x1b\r\n#:,'\"\\-{}[]é\u2028\ufeff\xa0"), max_size=200)


@settings(deadline=None, max_examples=50)
@given(NASTY)
def test_any_text_survives_in_every_place(text: str) -> None:
    profile = Profile(
        id="x",
        source=SourceRef(kind="hub", name=text, read_from=text),
        model_type=text,
        architectures=(text,),
        layers=(),
        facts={"a": Sourced(text, "config", text)},
        warnings=(Caution("k", "w", text),),
    )
    written = render(to_data(profile))
    assert from_data(load_text(written, "x")) == profile
    assert rewrite(written, to_data(profile)) == written


@given(st.sets(st.integers(0, 500), min_size=1).map(lambda s: tuple(sorted(s))))
def test_ranges_come_back(indices: tuple[int, ...]) -> None:
    assert ranges.parse(ranges.to_text(indices), "x") == indices


@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=4), st.integers(1, 10))
def test_lists_that_repeat_are_written_once_and_come_back(part: list[str], times: int) -> None:
    assert unpacked(packed(part * times), "x") == tuple(part * times)


@pytest.mark.parametrize(
    "text", ["", "a", "3-1", "-1", "1-2/0", "1,1", "0-9999999", "1-2-3", "99999999999999999999", [1], True, None, 1.5]
)
def test_what_is_not_a_range_is_refused(text: object) -> None:
    with pytest.raises(BadProfile):
        ranges.parse(text, "x")


@needs_shared
def test_every_corpus_profile_survives_its_own_text() -> None:
    done = 0
    for path in sorted((SHARED / "corpus").iterdir()):
        if not path.is_dir():
            continue
        try:
            profile = read_source(str(path))
        except Refusal:
            continue  # whether it may be refused is the derivation tests' question
        text = render(to_data(profile))
        assert to_data(from_data(load_text(text, path.name))) == to_data(profile), path.name
        assert max(len(line) for line in text.splitlines()) < 400, path.name
        done += 1
    assert done > 150


# --- a hostile or broken file ---------------------------------------------------------------------------------------


def damaged(change: Any) -> dict[str, Any]:
    data = {
        "schema_version": 1,
        "id": "x",
        "source": {"kind": "hub", "name": "o/x"},
        "model_type": "m",
        "architectures": [],
        "layers": [
            {"indices": "0-1", "caches": [{"type": "FullAttention", "num_kv_heads": 2, "k_dim": 8, "v_dim": 8}]}
        ],
        "facts": {"a": {"value": 1, "origin": "config", "where": "a"}},
    }
    change(data)
    return data


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda d: d.update(nonsense=1), "nonsense"),
        (lambda d: d.update(schema_version=2), "schema_version"),
        (lambda d: d.pop("layers"), "layers"),
        (lambda d: d.update(layers={}), "layers"),
        (lambda d: d["layers"].append({"indices": 1, "caches": []}), "layers[1].indices"),
        (lambda d: d["layers"].append({"indices": 7, "caches": []}), "layers"),
        (lambda d: d["layers"][0]["caches"][0].update(type="Magic"), "layers[0].caches.type"),
        (lambda d: d["layers"][0]["caches"][0].update(num_kv_heads=-2), "layers[0].caches.num_kv_heads"),
        (lambda d: d["layers"][0]["caches"][0].update(num_kv_heads=True), "layers[0].caches.num_kv_heads"),
        (lambda d: d["layers"][0]["caches"][0].update(extra=1), "layers[0].caches.extra"),
        (lambda d: d["layers"][0].update(kind="full"), "layers[0].kind"),
        (lambda d: d["facts"].update(a=3), "facts.a"),
        (lambda d: d["facts"]["a"].update(origin="guess"), "facts.a.origin"),
        (lambda d: d["facts"]["a"].update(value=10**30), "facts.a"),
        (lambda d: d["facts"]["a"].update(value=float("nan")), "facts.a"),
        (lambda d: d["facts"]["a"].update(value={"repeat": 10**9, "of": [1]}), "facts.a.repeat"),
        (lambda d: d["source"].update(revision=3), "source.revision"),
        (lambda d: d.update(weights=[{"name": "w", "origin": "listing", "where": ""}]), "weights[0]"),
        (
            lambda d: d.update(weights=[{"name": "w", "num_bytes": "1", "origin": "", "where": ""}]),
            "weights[0].num_bytes",
        ),
    ],
)
def test_a_broken_profile_is_refused_with_its_path(change: Any, path: str) -> None:
    with pytest.raises(BadProfile) as refused:
        from_data(damaged(change))
    assert refused.value.path == path


# --- nothing a person wrote is lost -----------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ONBOARD_CATALOG", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    return tmp_path


def test_adding_twice_changes_nothing(here: Path) -> None:
    source = str(folder(here))
    assert onboarding.add(source).created
    path = here / "profiles" / "tiny.yaml"
    before = path.read_bytes()
    again = onboarding.add(source)
    assert (again.created, again.changes, again.moved) == (False, (), ())
    assert path.read_bytes() == before
    assert path.read_text().splitlines()[0] == "# yaml-language-server: $schema=../schema/profile.schema.json"


def test_comments_and_notes_survive_a_newer_revision(here: Path) -> None:
    source = folder(here)
    onboarding.add(str(source))
    path = here / "profiles" / "tiny.yaml"
    text = path.read_text()
    text = text.replace("facts:\n", '# looked at by hand in May\nfacts: # these came from "the config"\n')
    text = text.replace("- indices: 0-3\n", "- indices: 0-3  # all the same\n")
    text = text.replace("seal:", "notes:\n- boots on two cards  # said the log\nseal:")
    path.write_text(text)
    folder(
        here,
        num_hidden_layers=6,
        max_position_embeddings=8192,
        layer_types=["full_attention"] * 3 + ["sliding_attention"] * 3,
        sliding_window=64,
    )
    added = onboarding.add(str(source))
    assert {"facts.max_model_len", "facts.num_hidden_layers"} <= {c.path for c in added.changes}
    assert added.moved == ()
    new = path.read_text()
    for mine in (
        "# looked at by hand in May",
        '# these came from "the config"',
        "# all the same",
        "boots on two cards",
        "# said the log",
    ):
        assert mine in new, mine
    assert len(from_data(load_text(new, "x")).layers) == 6
    assert onboarding.add(str(source)).changes == ()
    assert path.read_text() == new, "stable after the first rewrite"


def test_values_changed_by_hand_move_to_the_override_file_and_keep_their_effect(here: Path) -> None:
    from onboard import catalog

    source = folder(here)
    onboarding.add(str(source))
    path = here / "profiles" / "tiny.yaml"
    text = path.read_text()
    text = text.replace("max_model_len: {value: 4096", "max_model_len: {value: 3000").replace("v_dim: 16", "v_dim: 8")
    path.write_text(text)
    override = here / "overrides" / "tiny.yaml"
    override.parent.mkdir()
    override.write_text(
        "# a person's file\nmodel: tiny\noverrides:\n"
        "- path: facts.vocab_size\n  was: 256\n  to: 300  # padded\n  why: measured\n"
    )
    folder(here, max_position_embeddings=8192)  # a newer revision at the same time
    added = onboarding.add(str(source))
    assert {(m.path, m.to) for m in added.moved if m.path.startswith("facts")} == {("facts.max_model_len", 3000)}
    loaded = catalog.load("tiny")
    assert loaded.generated.fact("max_model_len") == 8192
    assert loaded.effective.fact("max_model_len") == 3000
    assert all(c.v_dim == 8 for layer in loaded.effective.layers for c in layer.caches if isinstance(c, FullAttention))
    assert {o.status for o in loaded.outcomes} == {"active"}
    assert "# a person's file" in override.read_text()
    assert "# padded" in override.read_text()
    again = onboarding.add(str(source))
    assert (again.changes, again.moved) == ((), ())


def test_what_no_override_can_say_becomes_a_note(here: Path) -> None:
    source = folder(here)
    onboarding.add(str(source))
    path = here / "profiles" / "tiny.yaml"
    path.write_text(path.read_text().replace("model_type: llama", "model_type: my_own_name"))
    onboarding.add(str(source))
    assert "my_own_name" in path.read_text()
    assert from_data(load_text(path.read_text(), "x")).model_type == "llama"


def test_a_file_that_cannot_be_read_is_not_written_over(here: Path) -> None:
    source = str(folder(here))
    onboarding.add(source)
    path = here / "profiles" / "tiny.yaml"
    for broken in ("facts: [unclosed\n", "schema_version: 1\nmine: true\n", "a: &x 1\nb: *x\n"):
        path.write_text(broken)
        with pytest.raises(BadProfile, match="not written over"):
            onboarding.add(source)
        assert path.read_text() == broken


def test_a_killed_run_leaves_the_old_file_whole(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = folder(here)
    onboarding.add(str(source))
    path = here / "profiles" / "tiny.yaml"
    before = path.read_bytes()
    folder(here, num_hidden_layers=9)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        onboarding.add(str(source))
    assert path.read_bytes() == before


def test_a_catalogue_that_cannot_be_written_says_so(here: Path) -> None:
    source = str(folder(here))
    (here / "file").write_text("")
    with pytest.raises(NotWritable, match="cannot be written"):
        onboarding.add(source, catalog=str(here / "file"))
    if os.geteuid() != 0:
        locked = here / "locked"
        locked.mkdir(mode=0o500)
        with pytest.raises(NotWritable):
            onboarding.add(source, catalog=str(locked))
    done = run("add", source, "--catalog", "/proc/nowhere", "--json", cwd=here)
    assert (done.code, done.json["error"]["kind"]) == (3, "NotWritable")


def test_ids(here: Path) -> None:
    assert proposed_id("Qwen/Qwen3.6-27B") == "qwen3.6-27b"
    assert onboarding.add(str(folder(here, "org__Tiny"))).profile.id == "tiny"
    assert onboarding.add(str(folder(here, "other__Tiny"))).profile.id == "other--tiny"
    assert onboarding.add(str(folder(here, "org__Tiny"))).profile.id == "tiny"
    for bad in ("../x", "a/b", "", "X", ".hidden", "a" * 200, "x\n"):
        with pytest.raises(Refusal):
            onboarding.add(str(folder(here)), wanted_id=bad)


def test_shuffled_keys_change_nothing_but_the_digest(here: Path) -> None:
    one = read_source(str(folder(here)))
    made = here / "org__tiny"
    (made / "config.json").write_text(json.dumps(dict(reversed(list(CONFIG.items()))), indent=3))
    two = read_source(str(made))
    assert {**to_data(one), "source": 0} == {**to_data(two), "source": 0}


def test_the_shipped_profiles_are_what_add_writes(here: Path) -> None:
    """Their files are stable under a second write, and their statuses are the ones they have earned."""
    for path in sorted((ROOT / "profiles").glob("*.yaml")):
        text = path.read_text()
        data = load_text(text, path.name)
        kept = {k: data[k] for k in ("status", "notes") if k in data}
        assert rewrite(text, {**to_data(from_data(data)), **kept}) == text, path.name
    shutil.copytree(ROOT / "profiles", here / "profiles")
