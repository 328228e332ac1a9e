"""The graph of a model with attention in every layer and a dense MLP, for one ubatch at full context.

Source: llama.cpp 0c1e57098 src/llama-graph.cpp (build_inp_embd, build_qkv, build_attn, build_attn_mha, build_ffn).
"""

from __future__ import annotations

from calc.engines.llamacpp.graph.alloc import Tensor
from calc.engines.llamacpp.graph.recipes import Recipe
from calc.engines.llamacpp.graph.tensors import F32, I32, I64, Graph
from onboard.values import Struct

OUTPUT = -2  # the unit that follows the last block
INPUT = -3  # the token table, always on the host


class LayerShape(Struct, frozen=True):
    """Widths of one layer in elements a token; `owner` says that it writes a cache of its own."""

    q: int
    k: int
    v: int
    heads: int
    window: bool
    owner: bool
    mlp: int
    out: int  # width of the attention's result


class Shape(Struct, frozen=True, kw_only=True):
    """The model and the batch: cells of the full and the window cache, `tokens` in the ubatch, rows of logits."""

    hidden: int
    vocab: int
    layers: tuple[LayerShape, ...]
    cells: int
    window_cells: int
    tokens: int
    outputs: int
    flash_attn: bool
    widest_v: int
    k_rotation: int = 0
    window_k_rotation: int = 0
    v_rotation: int = 0
    deepstack: int = 0  # layers that add features; `num_deep` blocks of them stand beside the embeddings
    num_deep: int = 0
    per_layer: int = 0
    per_layer_total: int = 0
    fused_qkv: bool = False
    cast: bool = False


class _Cache:
    """Inputs of one cache: rows to write, mask, rotations."""

    def __init__(self, graph: Graph, shape: Shape, cells: int, k_rotation: int) -> None:
        tokens = shape.tokens
        self.cells = cells
        self.k_index = graph.leaf(I64 * tokens)
        self.v_index = graph.leaf(I64 * tokens * (1 if shape.flash_attn else shape.widest_v))
        self.mask = graph.leaf((2 if shape.flash_attn else F32) * cells * tokens)
        self.k_rotation = graph.leaf(F32 * k_rotation**2) if k_rotation else None
        self.v_rotation = graph.leaf(F32 * shape.v_rotation**2) if shape.v_rotation else None


def dense_graph(shape: Shape, recipe: Recipe) -> Graph:
    """Build the graph. Nodes carry the block whose weight or cache decides their device."""
    return _Builder(shape, recipe).build()


class _Builder:
    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        self.s, self.r, self.g = shape, recipe, Graph()
        self.rows = shape.tokens
        self.memory = Tensor(0, external=True)
        self.deep: Tensor | None = None
        self.per_layer: Tensor | None = None
        self.full = _Cache(self.g, shape, shape.cells, shape.k_rotation)
        self.window = _Cache(self.g, shape, shape.window_cells, shape.window_k_rotation)
        self.pos = self.g.leaf(I32 * recipe.positions * shape.tokens)
        self.out_ids = self.g.leaf(I32 * shape.outputs)

    def build(self) -> Graph:
        shape, g = self.s, self.g
        cur = self._embedding()
        for il, layer in enumerate(shape.layers):
            cur = self._layer(il, layer, cur)
        cur = self._norm(cur, OUTPUT)
        cur.is_output = True  # embeddings are a result too
        if self.r.late_outputs:
            cur = self._select(cur)
            self.rows = shape.outputs
        logits = g.op(F32 * shape.vocab * self.rows, cur, layer=OUTPUT)
        logits.is_output = True
        g.expand(logits)
        return g

    def _embedding(self) -> Tensor:
        shape, g = self.s, self.g
        wide = F32 * shape.hidden * shape.tokens * (1 + shape.num_deep)
        tokens, direct = g.leaf(I32 * shape.tokens), g.leaf(wide)
        cur = self._wide(tokens, layer=INPUT)
        if shape.num_deep:
            self.deep = g.op(wide, cur)
            cur = g.view(self.deep)
        g.expand(self.deep or cur)
        g.expand(direct)  # the other way in: embeddings given instead of tokens
        g.expand(cur)
        if self.r.embedding_scale:
            cur = self._wide(cur, inplace=True)
            g.expand(cur)
        if self.r.extra_embeddings:
            cur = self._wide(cur, self._wide(self.pos, layer=INPUT), inplace=True)
        if self.r.embedding_norm:
            cur = self._norm(cur, INPUT)
        if self.r.bare_norm:
            cur = self._wide(cur, inplace=True)
        if shape.per_layer:
            self.per_layer = self._per_layer_inputs(cur)
        return cur

    def _per_layer_inputs(self, cur: Tensor) -> Tensor:
        """Gemma's per-layer embeddings: looked up and projected on the host, all layers at once."""
        g, size = self.g, F32 * self.s.per_layer_total * self.s.tokens
        looked_up = g.op(size, g.view(g.op(size, g.leaf(I32 * self.s.tokens), layer=INPUT)), inplace=True)
        g.expand(looked_up)
        projected = g.view(g.op(size, g.op(size, cur, layer=INPUT), inplace=True))
        normed = g.op(size, g.op(size, projected, inplace=True), inplace=True, layer=INPUT)
        summed = g.op(size, g.op(size, normed, looked_up, inplace=True), inplace=True)
        return g.op(size, g.view(summed))

    def _wide(self, *srcs: Tensor, inplace: bool = False, layer: int | None = None) -> Tensor:
        return self.g.op(F32 * self.s.hidden * self.rows, *srcs, inplace=inplace, layer=layer)

    def _norm(self, cur: Tensor, layer: int, size: int = 0) -> Tensor:
        size = size or F32 * self.s.hidden * self.rows
        normed = self.g.op(size, cur, inplace=not self.r.layer_norm)
        return self.g.op(size, normed, inplace=True, layer=layer)

    def _select(self, cur: Tensor) -> Tensor:
        return self.g.op(F32 * self.s.hidden * self.s.outputs, cur, self.out_ids)

    def _layer(self, il: int, layer: LayerShape, cur: Tensor) -> Tensor:
        inp = cur
        normed = self._norm(cur, il) if self.r.pre_norm else cur
        cur = self._attention(il, layer, normed)
        if self.r.post_norm and self.r.norm_before_outputs:
            cur = self._norm(cur, il)
        if il == len(self.s.layers) - 1 and not self.r.late_outputs:
            cur, inp = self._select(cur), self._select(inp)
            if self.r.parallel == "shared":
                normed = self._select(normed)
            self.rows = self.s.outputs
        if self.r.post_norm and not self.r.norm_before_outputs:
            cur = self._norm(cur, il)
        if self.r.parallel:
            return self._parallel(il, layer, cur, inp, normed)
        middle = self._wide(cur, inp, inplace=True)
        cur = self._mlp(il, layer, self._norm(middle, il) if self.r.pre_norm else middle)
        if self.r.post_norm:
            cur = self._norm(cur, il)
        ends = (middle, cur) if self.r.residual_first else (cur, middle)
        return self._layer_end(il, self._wide(*ends, inplace=True))

    def _layer_end(self, il: int, cur: Tensor) -> Tensor:
        """What some architectures add to a finished layer: deepstack features, a per-layer embedding."""
        if il < self.s.deepstack and self.deep is not None:
            cur = self._wide(cur, self.g.view(self.deep), inplace=True)
        if self.per_layer is not None:
            width = F32 * self.s.per_layer * self.rows
            gate = self.g.op(width, self.g.op(width, cur, layer=il), inplace=True)
            gate = self.g.op(width, gate, self.g.view(self.per_layer), inplace=True)
            cur = self._wide(cur, self._norm(self._wide(gate, layer=il), il), inplace=True)
        return cur

    def _parallel(self, il: int, layer: LayerShape, attended: Tensor, inp: Tensor, normed: Tensor) -> Tensor:
        source = normed if self.r.parallel == "shared" else self._norm(inp, il)
        cur = self._mlp(il, layer, source)
        if self.r.attended_first:
            return self._wide(self._wide(cur, attended, inplace=True), inp, inplace=True)
        return self._wide(self._wide(cur, inp, inplace=True), attended, inplace=True)

    def _mlp(self, il: int, layer: LayerShape, cur: Tensor) -> Tensor:
        size = F32 * layer.mlp * self.rows
        if self.r.half_mlp:
            size //= 2
        if self.r.mlp == "gelu":
            act = self.g.op(size, self.g.op(size, cur, layer=il), inplace=True)
        elif self.r.mlp == "fused":
            act = self.g.op(size, self.g.op(2 * size, cur, layer=il))
        else:
            up, gate = self.g.op(size, cur, layer=il), self.g.op(size, cur, layer=il)
            act = self.g.op(size, gate, up)
        return self._wide(act, layer=il)

    def _projections(self, il: int, layer: LayerShape, cur: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        g, rows = self.g, self.rows
        if self._fused():
            both = g.op(F32 * (layer.q + layer.k + layer.v) * rows, cur, layer=il)
            parts = []
            for width in (layer.q, layer.k, layer.v):
                part = g.view(both)
                part.size = F32 * width * rows
                parts.append(part)
            return parts[0], parts[1], parts[2]
        q, k, v = (g.view(g.op(F32 * width * rows, cur, layer=il)) for width in (layer.q, layer.k, layer.v))
        return q, k, v

    def _fused(self) -> bool:
        return self.s.fused_qkv or self.r.fused_qkv

    def _head_norm(self, cur: Tensor, il: int) -> Tensor:
        return self.g.op(cur.size, self.g.op(cur.size, cur, inplace=True), inplace=True, layer=il)

    def _rotate(self, cur: Tensor, rotation: Tensor | None) -> Tensor:
        """Hadamard rotation of a quantised cache's rows (llama_mul_mat_hadamard)."""
        if rotation is None:
            return cur
        if self._fused() and cur.view_of is not None:
            cur = self.g.op(cur.size, cur)  # a view of the joint projection is not contiguous
        return self.g.view(self.g.op(cur.size, rotation, self.g.view(cur)))

    def _attention(self, il: int, layer: LayerShape, cur: Tensor) -> Tensor:
        g, cache = self.g, self.window if layer.window else self.full
        q, k, v = self._projections(il, layer, cur)
        if self.r.qk_norm:
            q, k = self._head_norm(q, il), self._head_norm(k, il)
        if self.r.v_norm:
            v = g.op(v.size, v, inplace=True)
        if self.r.rope == "all" or (self.r.rope == "window" and layer.window):
            q, k = g.op(q.size, q, self.pos, inplace=True), g.op(k.size, k, self.pos, inplace=True)
        q, k, v = (
            self._rotate(q, cache.k_rotation),
            self._rotate(k, cache.k_rotation),
            self._rotate(v, cache.v_rotation),
        )
        g.expand(q)
        if layer.owner:
            g.expand(v)
            g.expand(k)
            g.store(self.memory, k, cache.k_index, il)
            if not self.s.flash_attn and self._fused() and v.view_of is not None:
                v = g.op(v.size, v)
            if not self.s.flash_attn and layer.v < self.s.widest_v:
                v = g.op(F32 * self.s.widest_v * self.rows, v)
            g.store(self.memory, v, cache.v_index, il)
        query = g.view(g.view(q))
        out = F32 * layer.out * self.rows
        if self.s.flash_attn:
            casts = (g.op(2 * w * cache.cells, self.memory) for w in (layer.k, layer.v)) if self.s.cast else ()
            mixed = g.view(g.op(out, query, *casts, cache.mask))
        else:
            scores = F32 * cache.cells * self.rows * layer.heads
            weights = g.op(scores, g.op(scores, query), cache.mask, inplace=True)
            mixed = g.op(out, g.view(g.op(out, weights)))
        g.expand(mixed)
        mixed = self._rotate(mixed, cache.v_rotation)
        if self.r.output_gate:
            gate = g.op(out, g.op(out, cur, layer=il), inplace=True)
            mixed = g.op(out, mixed, gate, inplace=True)
        return self._wide(mixed, layer=il)
