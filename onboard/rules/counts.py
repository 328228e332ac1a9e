"""How many layers there are, where a family counts them in its own way."""

from __future__ import annotations

from onboard.errors import LayerCountMismatch
from onboard.facts import Facts
from onboard.rules.recurrent_labels import MLP

_LISTS = ("layers_block_type", "hybrid_override_pattern", "attn_layers")
_STACKS_WITHOUT_A_COUNT = {"nemotron_h": 4}  # transformers 5.24 NemotronHConfig: the default pattern's length


def layer_count(facts: Facts) -> int:
    """Layers of the stack. Raises LayerCountMismatch where a pattern and the count disagree.

    Nemotron-H files may leave the count to the pattern (transformers 5.24 NemotronHConfig). LongCat-Flash counts
    double blocks, each with two attentions (LongcatFlashConfig.num_hidden_layers is 2 x num_layers).
    """
    if facts.get("decoder_layers") is not None:  # an encoder-decoder: only the decoder keeps a cache
        return int(facts.record("num_hidden_layers", facts.get("decoder_layers"), facts.path("decoder_layers")))
    if facts.get("zero_expert_num") is not None and facts.get("double_block_layers") is not None:
        blocks = facts.get("double_block_layers")
        return int(facts.record("num_hidden_layers", 2 * blocks, "2 attentions x num_layers double blocks"))
    if pairs_attention_and_mlp(facts):
        blocks = facts.need("num_hidden_layers")
        return int(facts.record("num_hidden_layers", blocks // 2, "attention and MLP blocks / 2"))
    listed = next((name for name in _LISTS if facts.has(name)), None)
    if listed is not None:
        length = len(facts.get(listed))
        if not facts.has("num_hidden_layers"):
            return int(facts.record("num_hidden_layers", length, f"entries of {listed}"))
        if facts.get("num_hidden_layers") != length:
            raise LayerCountMismatch(
                f"{listed} has {length} entries for {facts.get('num_hidden_layers')} layers",
                path=facts.prefix + listed,
                value=length,
                hint="one entry a layer",
            )
    elif facts.find("num_hidden_layers") is None:
        if facts.has("layer_types"):
            length = len(facts.get("layer_types"))
            return int(facts.record("num_hidden_layers", length, "entries of layer_types"))
        held = next((facts.get(name) for name in _LISTS if facts.get(name) is not None), None)
        own = _STACKS_WITHOUT_A_COUNT.get(facts.model_type) if held is None else len(held)
        if own is not None:
            return int(facts.record("num_hidden_layers", own, "the class's own pattern"))
    return int(facts.need("num_hidden_layers", "says how many layers there are"))


def pairs_attention_and_mlp(facts: Facts) -> bool:
    """Whether `layer_types` lists each layer's MLP as an entry of its own (transformers 5.24 DoryConfig)."""
    return facts.get("n_recurrent_loops") is not None and facts.has("layer_types") and MLP in facts.get("layer_types")
