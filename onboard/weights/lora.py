"""What one LoRA slot of one rank costs: inputs and outputs of every module that an adapter may target.

Source: vLLM 0.33 lora/layers/*.py: a module holds A (rank x inputs) and B (outputs x rank) for every slot at the
greatest rank, whatever the adapters need; TP divides B of column-parallel modules and A of row-parallel ones.
"""

from __future__ import annotations

from onboard.values import Struct
from onboard.weights.matrix import Matrix

ROW_PARALLEL = ("o_proj", "out_proj", "down_proj", "dense")
TARGETS = (
    "attention", "kv_proj", "kv_tied", "latent_up", "replicated", "mlp", "experts", "shared_expert", "state",
    "state_groups",
)  # fmt: skip


class LoraWidth(Struct, frozen=True):
    """Inputs and outputs summed over all targeted modules and layers: those TP divides, and those it does not."""

    whole: int
    divided: int

    def on_card(self, tp: int) -> int:
        return self.whole + -(-self.divided // tp)


def lora_width(made: list[Matrix], targets: tuple[str, ...] | None = None) -> LoraWidth:
    """The widths of the modules named in `targets` (their last name, `q_proj`), or of all that vLLM supports."""
    whole = divided = 0
    for m in made:
        name = m.module.rpartition(".")[2]
        wanted = name in targets if targets is not None else m.role in TARGETS
        if not m.linear or not wanted:
            continue
        copies = m.copies * (len(m.layers) or 1)
        inside, outside = m.columns * copies, m.rows * copies
        row = name in ROW_PARALLEL
        whole += outside if row else inside
        divided += inside if row else outside
        if m.role == "kv_tied":
            whole, divided = whole + inside, divided + outside
    return LoraWidth(whole, divided)
