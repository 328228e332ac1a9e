"""The Hub, through the real huggingface_hub, against a loopback server that speaks its protocol."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onboard.errors import UnknownModel
from onboard.sources.spec import HubSpec, hub_spec
from tests.commands import run
from tests.gguf_bytes import header
from tests.hubserver import HubServer
from tests.tiny_model import CONFIG


def config(**changes: Any) -> bytes:
    return json.dumps({**CONFIG, **changes}).encode()


def safetensors(shapes: dict[str, list[int]]) -> bytes:
    """A bfloat16 file of zeros: eight bytes of length, the JSON header, the data."""
    entries: dict[str, Any] = {}
    at = 0
    for name, shape in shapes.items():
        size = 2
        for one in shape:
            size *= one
        entries[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + bytes(at)


@pytest.fixture
def hub() -> Iterator[HubServer]:
    with HubServer() as server:
        yield server


def test_first_fetch_records_the_commit_and_reads_headers_by_ranges(hub: HubServer, tmp_path: Path) -> None:
    weights = safetensors({"model.embed_tokens.weight": [256, 64], "model.norm.weight": [64], "pad.weight": [3000, 64]})
    commit = hub.repo("org/tiny", {"config.json": config(), "model.safetensors": weights + bytes(10**6)[:0]})
    done = run("add", "org/tiny", "--json", cwd=tmp_path, env=hub.env(tmp_path))
    assert done.code == 0, done.out
    assert done.json["id"] == "tiny"
    text = (tmp_path / "profiles" / "tiny.yaml").read_text()
    assert f"revision: {commit}" in text
    assert "kind: hub" in text
    ranges = [r for method, path, r in hub.log if path.endswith("model.safetensors") and method == "GET"]
    assert ranges and all(r is not None and r.startswith("bytes=") for r in ranges)
    shown = run("inspect", "org/tiny", "--json", cwd=tmp_path, env=hub.env(tmp_path)).json
    assert shown["model"]["revision"] == commit
    assert shown["weights"]["checkpoint_bytes"] == 2 * (256 * 64 + 64 + 3000 * 64)
    assert shown["weights"]["origin"] == "headers"


def test_cached_and_offline(hub: HubServer, tmp_path: Path) -> None:
    commit = hub.repo("org/tiny", {"config.json": config()})
    env = hub.env(tmp_path)
    assert run("inspect", "org/tiny", cwd=tmp_path, env=env).code == 0
    fetched = sum(m == "GET" and p.endswith("config.json") for m, p, _ in hub.log)
    assert run("inspect", "org/tiny", cwd=tmp_path, env=env).code == 0
    assert sum(m == "GET" and p.endswith("config.json") for m, p, _ in hub.log) == fetched, "the second read is cached"
    asked = len(hub.log)
    offline = run("inspect", "org/tiny", "--json", cwd=tmp_path, env={**env, "HF_HUB_OFFLINE": "1"})
    assert offline.code == 0
    assert offline.json["model"]["revision"] == commit
    assert len(hub.log) == asked, "offline means no request at all"
    missed = run("inspect", "org/other", "--json", cwd=tmp_path, env={**env, "HF_HUB_OFFLINE": "1"})
    assert missed.code == 4
    assert missed.json["error"]["kind"] == "OfflineMiss"


def test_each_failure_has_its_own_name_and_next_step(hub: HubServer, tmp_path: Path) -> None:
    """huggingface_hub PR 1202: a 401 means a gated repository or a missing one; neither is a 404 or a 503."""
    hub.repo("org/gated", {"config.json": config()})
    hub.repos["org/gated"].gated = True
    hub.repo("org/bare", {"README.md": b"hello"})
    hub.repo("org/down", {"config.json": config()})
    hub.repos["org/down"].down = True
    hub.repo("org/tiny", {"config.json": config()})
    env = hub.env(tmp_path)
    expected = {
        "org/gated": (4, "GatedNeedsToken", "HF_TOKEN"),
        "org/missing": (4, "RepoNotFound", "spelling"),
        "org/bare": (3, "ConfigMissing", "holds the model"),
        "org/down": (4, "HubUnavailable", "HF_HUB_OFFLINE=1"),
        "org/tiny@nope": (4, "RevisionNotFound", "branch"),
    }
    for source, (code, kind, hint) in expected.items():
        done = run("inspect", source, "--json", cwd=tmp_path, env=env)
        error = done.json["error"]
        assert (done.code, error["kind"]) == (code, kind), source
        assert hint in error["hint"], source
        plain = run("add", source, cwd=tmp_path, env=env)
        assert plain.code == code
        assert plain.err.startswith(f"{kind}: ") and not plain.out
    assert not (tmp_path / "profiles").exists()


def test_a_token_opens_a_gated_repository(hub: HubServer, tmp_path: Path) -> None:
    hub.repo("org/gated", {"config.json": config()})
    hub.repos["org/gated"].gated = True
    assert run("inspect", "org/gated", cwd=tmp_path, env=hub.env(tmp_path, HF_TOKEN="hf_wrong")).code == 4
    assert run("inspect", "org/gated", cwd=tmp_path, env=hub.env(tmp_path, HF_TOKEN="hf_right")).code == 0


def test_a_failed_request_is_never_answered_from_an_older_commit(hub: HubServer, tmp_path: Path) -> None:
    hub.repo("org/tiny", {"config.json": config()})
    env = hub.env(tmp_path)
    assert run("inspect", "org/tiny", cwd=tmp_path, env=env).code == 0
    hub.repo("org/tiny", {"config.json": config(num_hidden_layers=6)})
    hub.repos["org/tiny"].gated = True  # the listing answers, the file does not
    done = run("inspect", "org/tiny", "--json", cwd=tmp_path, env=env)
    assert (done.code, done.json["error"]["kind"]) == (4, "GatedNeedsToken")
    hub.repos["org/tiny"].down = True
    assert run("inspect", "org/tiny", "--json", cwd=tmp_path, env=env).json["error"]["kind"] == "HubUnavailable"


def test_a_moved_revision_drifts_and_a_named_one_does_not(hub: HubServer, tmp_path: Path) -> None:
    first = hub.repo("org/tiny", {"config.json": config()})
    env = hub.env(tmp_path)
    assert run("add", "org/tiny", cwd=tmp_path, env=env).code == 0
    assert run("refresh", "tiny", "--check", cwd=tmp_path, env=env).code == 0
    second = hub.repo("org/tiny", {"config.json": config(num_hidden_layers=6)})
    before = (tmp_path / "profiles" / "tiny.yaml").read_text()
    drift = run("refresh", "tiny", "--check", "--json", cwd=tmp_path, env=env)
    assert drift.code == 1
    changed = {c["path"]: (c["old"], c["new"]) for c in drift.json["models"][0]["changes"]}
    assert changed["source.revision"] == (first, second)
    assert (tmp_path / "profiles" / "tiny.yaml").read_text() == before, "--check writes nothing"
    assert run("refresh", "tiny", cwd=tmp_path, env=env).code == 0
    assert second in (tmp_path / "profiles" / "tiny.yaml").read_text()
    old = run("inspect", f"org/tiny@{first}", "--json", cwd=tmp_path, env=env).json
    assert (old["model"]["revision"], old["num_layers"]["total"]) == (first, 4)
    hub.repo("org/tiny", {"config.json": config(num_hidden_layers=8)}, ref="v2")
    assert run("inspect", "org/tiny@v2", "--json", cwd=tmp_path, env=env).json["num_layers"]["total"] == 8
    url = f"{hub.url}/org/tiny/tree/v2"
    assert run("inspect", url, "--json", cwd=tmp_path, env=env).json["num_layers"]["total"] == 8


def test_no_answer_at_all(tmp_path: Path, hub: HubServer) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        env = {**hub.env(tmp_path), "HF_ENDPOINT": f"http://127.0.0.1:{unused.getsockname()[1]}"}
        done = run("inspect", "org/tiny", "--json", cwd=tmp_path, env=env)
    assert (done.code, done.json["error"]["kind"]) == (4, "HubUnavailable")


def test_params_json_alone_is_read_in_its_own_dialect(hub: HubServer, tmp_path: Path) -> None:
    """vLLM PR 17132: no config.json, and consolidated.safetensors is the weight set."""
    params = {
        "dim": 5120,
        "n_layers": 40,
        "head_dim": 128,
        "hidden_dim": 14336,
        "n_heads": 32,
        "n_kv_heads": 8,
        "vocab_size": 131072,
        "max_seq_len": 131072,
    }
    hub.repo("org/dialect", {"params.json": json.dumps(params).encode()})
    shown = run("inspect", "org/dialect", "--json", cwd=tmp_path, env=hub.env(tmp_path)).json
    assert shown["num_layers"]["total"] == 40
    assert shown["layers"][0]["num_kv_heads"] == 8
    assert shown["layers"][0]["k_dim"] == 128
    assert shown["cache"]["growing_elements_per_token"] * 2 == 163840
    assert shown["max_model_len"] == 131072


def test_a_quantization_block_in_a_file_of_its_own_decides_the_cache(hub: HubServer, tmp_path: Path) -> None:
    """ModelOpt's hf_quant_config.json: read on the Hub and in a folder, and left alone where the config has a block."""
    side = json.dumps(
        {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    )
    files = {"config.json": config(), "hf_quant_config.json": side.encode()}
    hub.repo("org/tiny", files)
    folder = tmp_path / "copy"
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)
    env = hub.env(tmp_path)
    plan = ("--vram", "24", "--engine", "vllm", "--json")
    for source in ("org/tiny", str(folder)):
        assert run("inspect", source, "--json", cwd=tmp_path, env=env).json["facts"]["kv_cache_scheme"] == {
            "value": "fp8",
            "origin": "config",
            "where": "hf_quant_config.json: quantization.kv_cache_quant_algo",
        }
        answer = run("predict", source, *plan, cwd=tmp_path, env=env, program="calc").json
        assert answer["plan"]["kv_cache_dtype"] == "fp8_e4m3", source
        assert answer["cache"]["growing_bytes_per_token"] == 4 * 2 * 2 * 16
    assert run("add", "org/tiny", cwd=tmp_path, env=env).code == 0
    assert "hf_quant_config.json: quantization.kv_cache_quant_algo" in (tmp_path / "profiles" / "tiny.yaml").read_text()
    stated = {"quant_method": "fp8", "activation_scheme": "dynamic"}
    (folder / "config.json").write_bytes(config(quantization_config=stated))
    (folder / "hf_quant_config.json").write_text("{")
    answer = run("predict", str(folder), *plan, cwd=tmp_path, env=env, program="calc").json
    assert answer["cache"]["growing_bytes_per_token"] == 4 * 2 * 2 * 16 * 2, (
        "the config's own block counts, and says nothing"
    )


def test_nothing_of_the_repository_is_run(hub: HubServer, tmp_path: Path) -> None:
    """tinker-cookbook PR 586: a config class of the repository's own is a caution, never code to run."""
    own = {
        "model_type": "never_seen",
        "auto_map": {"AutoConfig": "configuration_never_seen.NeverSeenConfig"},
        "num_hidden_layers": 48,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
    }
    code = b"open('ran', 'w').close()\n"
    hub.repo("org/own", {"config.json": json.dumps(own).encode(), "configuration_never_seen.py": code})
    shown = run("inspect", "org/own", "--json", cwd=tmp_path, env=hub.env(tmp_path)).json
    assert shown["cache"]["growing_elements_per_token"] * 2 == 196608
    assert "custom-config-class" in {w["kind"] for w in shown["warnings"]}
    assert not (tmp_path / "ran").exists()
    assert not any(path.endswith(".py") for _, path, _ in hub.log)


def test_the_tokenizers_sentinel_is_not_a_context_length(hub: HubServer, tmp_path: Path) -> None:
    """SGLang PR 37053: about 1e30 means "not stated"."""
    bare = {k: v for k, v in CONFIG.items() if k not in ("max_position_embeddings", "model_type", "architectures")}
    sentinel = json.dumps({"model_max_length": 1000000000000000019884624838656}).encode()
    hub.repo("org/a", {"config.json": config(max_position_embeddings=2048), "tokenizer_config.json": sentinel})
    hub.repo("org/b", {"config.json": json.dumps(bare).encode(), "tokenizer_config.json": sentinel})
    hub.repo("org/c", {"config.json": json.dumps(bare).encode(), "tokenizer_config.json": b'{"model_max_length": 512}'})
    env = hub.env(tmp_path)
    found = {
        s: run("inspect", s, "--json", cwd=tmp_path, env=env).json["max_model_len"] for s in ("org/a", "org/b", "org/c")
    }
    assert found == {"org/a": 2048, "org/b": None, "org/c": 512}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("org/name", HubSpec("org/name")),
        ("org/name@v1.0", HubSpec("org/name", "v1.0")),
        ("org/name@refs/pr/3", HubSpec("org/name", "refs/pr/3")),
        ("org/name:q4.gguf", HubSpec("org/name", None, "q4.gguf")),
        ("org/name@main:sub/q4.gguf", HubSpec("org/name", "main", "sub/q4.gguf")),
        ("https://huggingface.co/org/name", HubSpec("org/name")),
        ("https://huggingface.co/org/name/", HubSpec("org/name")),
        ("https://hf.co/org/name/tree/v2", HubSpec("org/name", "v2")),
        ("https://huggingface.co/org/name/blob/main/config.json?download=true", HubSpec("org/name", "main")),
        ("https://huggingface.co/org/name/resolve/main/q4.gguf", HubSpec("org/name", "main", "q4.gguf")),
        ("name", None),
        ("./org/name", None),
        ("a/b/c", None),
        ("../name", None),
        ("org/config.json", None),
        ("https://huggingface.co/name", None),
    ],
)
def test_what_a_user_may_type(typed: str, meant: HubSpec | None) -> None:
    assert hub_spec(typed) == meant


@pytest.mark.parametrize("typed", ["https://example.org/org/name", "file:///etc/passwd", "ftp://huggingface.co/a/b"])
def test_other_hosts_are_not_asked(typed: str) -> None:
    with pytest.raises(UnknownModel):
        hub_spec(typed)


def test_a_gguf_is_added_and_refreshed_from_wherever_it_lies(hub: HubServer, tmp_path: Path) -> None:
    meta = {
        "general.architecture": "llama",
        "llama.block_count": 4,
        "llama.embedding_length": 64,
        "llama.attention.head_count": 4,
        "llama.attention.head_count_kv": 2,
        "llama.context_length": 4096,
        "llama.feed_forward_length": 128,
    }
    raw = header(meta, [("token_embd.weight", (64, 256), 1)])
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "a-f16.gguf").write_bytes(raw)
    hub.repo("org/ggufs", {"sub/b-f16.gguf": raw})
    env = hub.env(tmp_path)
    for source, model_id in (("only/a-f16.gguf", "one"), ("only", "two"), ("org/ggufs:sub/b-f16.gguf", "three")):
        assert run("add", source, "--id", model_id, cwd=tmp_path, env=env).code == 0, source
        shown = run("show", model_id, "--json", cwd=tmp_path, env=env).json
        assert shown["cache"]["growing_elements_per_token"] == 4 * 2 * 2 * 16
        again = run("refresh", model_id, "--check", cwd=tmp_path, env=env)
        assert (again.code, again.out) == (0, f"{model_id}: no drift\n")
        plan = ("--engine", "llamacpp", "--vram", "8", "--ctx-size", "2048", "--parallel", "1", "--json")
        answer = run("predict", source, *plan, cwd=tmp_path, env=env, program="calc").json
        cells = 2048 * 4 * 2 * 2 * 16 * 2  # tokens x layers x KV heads x (K, V) x head size x f16
        assert next(t["bytes"] for t in answer["terms"] if t["name"] == "kv_growing") == cells, source
        stored = run("predict", model_id, *plan, cwd=tmp_path, env=env, program="calc").json
        for name in ("terms", "kv_pool", "devices", "verdict"):
            assert answer[name] == stored[name], (source, name)
    missing = run("inspect", "org/ggufs:c.gguf", "--json", cwd=tmp_path, env=env)
    assert (missing.code, missing.json["error"]["kind"]) == (3, "ConfigMissing")
    assert "sub/b-f16.gguf" in missing.json["error"]["hint"]
