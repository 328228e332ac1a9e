"""What was given and changes nothing is said or refused; what a table or a search did not answer says why."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import call

from calc.table import Row, useless_formats

CARD = ("--card", "rtx-3090")


@pytest.mark.parametrize(
    ("option", "path"),
    [
        ("--mem-util", "--gpu-memory-utilization"),
        ("--weights-gb", "--weights-gb"),
        ("--drafter-gb", "--drafter-gb"),
        ("--mem-fraction-static", "--mem-fraction-static"),
        ("--mamba-full-memory-ratio", "--mamba-full-memory-ratio"),
        ("--draft-kv-gb", "--draft-kv-gb"),
        ("--compression-ratio", "--compression-ratio"),
    ],
)
def test_nan_is_no_amount(option: str, path: str, tmp_path: Path) -> None:
    done = call("predict", "qwen3.6-27b", *CARD, option, "nan", "--json", cwd=tmp_path, program="calc")
    assert (done.code, done.json["error"]["path"]) == (2, path)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("predict", "qwen3.6-27b", "--engine", "vllm@"), 2, "no version stands behind the @"),
        (("predict", "qwen3.6-27b", "--catalog", "nowhere"), 2, "does not exist"),
        (("predict", "qwen3.6-27b", "--catalog", "file"), 2, "is not a folder"),
        (("predict", "qwen3.6-27b", "--weights", "nope", "--weights-gb", "9"), 3, "no weights called 'nope'"),
        (("table", "qwen3.6-27b", "--kv-formats", "foo"), 2, "no KV format is called 'foo'"),
        (("table", "qwen3.6-27b", "--contexts", "1,x"), 2, "--contexts: 'x'"),
    ],
)
def test_refused_with_the_option_named(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = call(*arguments, *CARD, cwd=tmp_path, program="calc")
    assert done.code == code
    assert said in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--gpus", "2"), "2 cards are given and the plan uses 1: add --tp 2"),
        (("--compressed-layers", "3"), "--compressed-layers changes nothing without --compression-ratio"),
        (("--engine", "llamacpp", "-ts", "1,2,3"), "3 shares for 1 card(s): give --gpus 3"),
    ],
)
def test_what_changes_nothing_is_said(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in call("predict", "qwen3.6-27b", *CARD, *arguments, cwd=tmp_path, program="calc").out


def test_a_search_says_what_it_overrides_and_what_it_tried(tmp_path: Path) -> None:
    done = call("solve", "gemma-4-31b", "--for", "kv-cache-dtype", *CARD, cwd=tmp_path, program="calc")
    assert "below: the last that was tried, kv-cache-dtype turboquant_3bit_nc" in done.out
    done = call("solve", "qwen3.6-27b", "--for", "tp", "--tp", "2", *CARD, cwd=tmp_path, program="calc")
    assert "--tensor-parallel-size 2 is left out" in done.out


def test_a_refused_plan_shows_no_pool(tmp_path: Path) -> None:
    out = call("predict", "qwen3.6-27b", *CARD, "--tp", "3", cwd=tmp_path, program="calc").out
    assert "FAIL" in out
    assert "KV pool" not in out
    assert "reserved" not in out


def test_a_table_tells_short_memory_from_a_refusal(tmp_path: Path) -> None:
    """TP 3 does not divide the model: every cell is refused, with the reason once."""
    tried = ("table", "qwen3.6-27b", *CARD, "--contexts", "8k,256k", "--kv-formats", "bf16,nvfp4")
    out = call(*tried, "--tp-sizes", "1,3", cwd=tmp_path, program="calc").out
    assert "FAIL" in out
    assert out.count("is not divisible by 3") == 1
    assert "TP 3 bf16, nvfp4: " in out


def test_llamacpp_tables_count_cards_and_say_what_is_left(tmp_path: Path) -> None:
    tried = ("table", "gemma-4-31b", *CARD, "--gpus", "2", "--engine", "llamacpp", "--contexts", "8k")
    done = call(*tried, "--kv-formats", "bf16,q8_0", cwd=tmp_path, program="calc")
    assert "refused" not in done.out
    assert "PASS 9." in done.out
    rows = call(*tried, "--kv-formats", "q8_0", "--json", cwd=tmp_path, program="calc").json["rows"]
    assert [r["tensor_parallel_size"] for r in rows] == [1, 2]


def test_the_header_names_the_stored_format(tmp_path: Path) -> None:
    for more, name in (
        (("--engine", "llamacpp", "--cache-type-k", "q8_0"), "KV q8_0/f16"),
        (("--engine", "sglang"), "KV bf16"),
    ):
        assert name in call("predict", "qwen3.6-27b", *CARD, *more, cwd=tmp_path, program="calc").out


def test_a_kv_format_is_nothing_to_a_model_without_attention(tmp_path: Path) -> None:
    """No kernel reads a cache, so no card lacks one; and a reader is told that the format changes nothing."""
    config = {
        "architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 768, "state_size": 16,
        "num_hidden_layers": 4, "vocab_size": 50280, "conv_kernel": 4, "intermediate_size": 1536, "expand": 2,
        "time_step_rank": 48, "use_conv_bias": True, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    sizes = {}
    for name in ("auto", "fp8_e4m3", "nvfp4"):
        tried = ("predict", "config.json", *CARD, "--max-ctx", "4096", "--weights-gb", "1", "--kv-cache-dtype", name)
        answer = call(*tried, "--json", cwd=tmp_path, program="calc").json
        sizes[name] = (answer["verdict"], answer["needed_bytes"])
        assert ("changes nothing" in str(answer["notes"])) == (name != "auto")
    assert len(set(sizes.values())) == 1
    assert sizes["auto"][0] == "PASS"


def test_state_slots_alone_bound_a_model_without_attention(tmp_path: Path) -> None:
    """SGLang's pool of tokens is then one context long whatever the card; the state pool's slots are what is held."""
    config = {
        "architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 768, "state_size": 16,
        "num_hidden_layers": 4, "vocab_size": 50280, "conv_kernel": 4, "intermediate_size": 1536, "expand": 2,
        "time_step_rank": 48, "use_conv_bias": True, "torch_dtype": "bfloat16",
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    tried = ("predict", "config.json", *CARD, "--engine", "sglang", "--max-ctx", "4096", "--weights-gb", "1", "--json")
    pool = call(*tried, cwd=tmp_path, program="calc").json["kv_pool"]
    assert pool["max_concurrency"] == pool["max_running_requests"] > 1


def test_a_far_source_is_recorded_whole_and_a_near_one_relative(tmp_path: Path) -> None:
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 1000,
        "max_position_embeddings": 2048, "torch_dtype": "bfloat16",
    }  # fmt: skip
    catalog = tmp_path / "mine" / "catalog"
    for place, shown in (("far/model", str(tmp_path / "far" / "model")), ("mine/near", "../near")):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(json.dumps(config))
        done = call("add", str(folder), "--id", folder.name, "--catalog", str(catalog), cwd=tmp_path)
        assert done.code == 0, done.err
        text = (catalog / "profiles" / f"{folder.name}.yaml").read_text()
        assert f"location: {shown}\n" in text
        assert call("refresh", folder.name, "--check", "--catalog", str(catalog), cwd=tmp_path).code == 0


def test_a_format_that_saves_nothing_is_named() -> None:
    """Padding to a recurrent state's page can cost what narrower elements save; one length where it helps clears it."""

    def row(name: str, length: int, held: float) -> Row:
        return Row(
            max_model_len=length, kv_cache_dtype=name, tensor_parallel_size=1, verdict="PASS", max_concurrency=held,
            needed_bytes=1, headroom_bytes=1, reason="",
        )  # fmt: skip

    rows = [row("bf16", 1, 7.9), row("bf16", 2, 4.0), row("fp8", 1, 7.9), row("fp8", 2, 6.0), row("tq3", 1, 7.7)]
    assert useless_formats([*rows, row("tq3", 2, 4.0)]) == ("tq3",)
    assert useless_formats([*rows, row("tq3", 2, 4.1)]) == ()
