"""A second implementation of the supported architectures: plain NumPy in float64, straight from
a `TinyModel`.

It shares no code with the compiler: no hyperparameter object, no blocks, no ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tests.support.tiny_gguf import TinyModel

Array = npt.NDArray[np.float64]


class NumpyModel:
    """The forward pass of a float32 tiny model."""

    def __init__(self, model: TinyModel) -> None:
        """Read what the model's metadata says, with the defaults of the architectures."""
        self.arch = model.metadata["general.architecture"]
        self.metadata = model.metadata
        self.weights = {name: t.numpy().astype(np.float64) for name, t in model.tensors.items()}
        self.dim = self.key("embedding_length")
        self.n_heads = self.key("attention.head_count")
        n_kv = self.key("attention.head_count_kv", self.n_heads)
        self.n_kv = n_kv[0] if isinstance(n_kv, list) else n_kv
        self.head_dim = self.key("attention.key_length", self.dim // self.n_heads)
        self.is_gemma = self.arch == "gemma3"

    def key(self, name: str, default: Any = None) -> Any:
        """A hyperparameter, without its kind."""
        value = self.metadata.get(f"{self.arch}.{name}", default)
        return value[0] if isinstance(value, tuple) else value

    def forward(self, ids: npt.ArrayLike) -> Array:
        """Logits [n, vocabulary]."""
        x = self.weights["token_embd.weight"][np.asarray(ids)]
        if self.is_gemma:
            x = x * np.sqrt(self.dim)
        for i in range(self.key("block_count")):
            x = x + self.post(
                i, "post_attention_norm", self.attention(i, self.norm(f"blk.{i}.attn_norm", x))
            )
            x = x + self.post(i, "post_ffw_norm", self.mlp(i, self.norm(f"blk.{i}.ffn_norm", x)))
        x = self.norm("output_norm", x)
        out = x @ self.weights.get("output.weight", self.weights["token_embd.weight"]).T
        cap = self.key("final_logit_softcapping", 0.0)
        return cap * np.tanh(out / cap) if cap else out

    def post(self, i: int, name: str, x: Array) -> Array:
        """The norm after a branch, where the architecture has one."""
        return self.norm(f"blk.{i}.{name}", x) if self.is_gemma else x

    def norm(self, name: str, x: Array) -> Array:
        """Root-mean-square norm."""
        eps = np.float32(self.key("attention.layer_norm_rms_epsilon"))
        normed: Array = x / np.sqrt((x**2).mean(-1, keepdims=True) + eps)
        return normed * self.weights[name + ".weight"]

    def dense(self, name: str, x: Array) -> Array:
        """A matrix and its bias."""
        return x @ self.weights[name + ".weight"].T + self.weights.get(name + ".bias", 0.0)

    def mlp(self, i: int, x: Array) -> Array:
        """The gated MLP."""
        gate = self.dense(f"blk.{i}.ffn_gate", x)
        if self.is_gemma:
            gate = gate / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        else:
            gate = gate / (1 + np.exp(-gate))
        return self.dense(f"blk.{i}.ffn_down", gate * self.dense(f"blk.{i}.ffn_up", x))

    def window(self, i: int) -> int:
        """Positions that layer i sees, 0 for all."""
        pattern = self.key("attention.sliding_window_pattern", 6 if self.is_gemma else 0)
        windowed = (
            pattern[i] if isinstance(pattern, list) else pattern == 0 or (i + 1) % pattern != 0
        )
        return self.key("attention.sliding_window", 0) if windowed else 0

    def attention(self, i: int, x: Array) -> Array:
        """Grouped attention over the whole prompt, one query at a time."""
        q, k, v = (self.heads(i, name, x) for name in "qkv")
        if f"blk.{i}.attn_q_norm.weight" in self.weights:
            q, k = self.norm(f"blk.{i}.attn_q_norm", q), self.norm(f"blk.{i}.attn_k_norm", k)
        q, k = self.rope(i, q), self.rope(i, k)
        k, v = (np.repeat(a, self.n_heads // self.n_kv, axis=1) for a in (k, v))
        window, cap = self.window(i), self.key("attn_logit_softcapping", 0.0)
        out = np.empty((len(x), self.n_heads, v.shape[2]))
        for t in range(len(x)):
            first = max(0, t - window + 1) if window else 0
            scores = np.einsum("hd,phd->hp", q[t], k[first : t + 1]) * self.scale()
            scores = cap * np.tanh(scores / cap) if cap else scores
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[t] = np.einsum(
                "hp,phd->hd", weights / weights.sum(-1, keepdims=True), v[first : t + 1]
            )
        return self.dense(f"blk.{i}.attn_output", out.reshape(len(x), -1))

    def scale(self) -> float:
        """What scores are multiplied by."""
        return float(self.key("attention.scale", 0.0) or self.head_dim**-0.5)

    def heads(self, i: int, name: str, x: Array) -> Array:
        """The heads of q, k or v, from their own matrix or a joint one."""
        n = self.n_heads if name == "q" else self.n_kv
        width = self.key("attention.value_length", self.head_dim) if name == "v" else self.head_dim
        if f"blk.{i}.attn_qkv.weight" in self.weights:
            q, k = self.n_heads * self.head_dim, self.n_kv * self.head_dim
            cuts = dict(
                zip(
                    "qkv",
                    np.split(self.dense(f"blk.{i}.attn_qkv", x), [q, q + k], axis=1),
                    strict=True,
                )
            )
            return cuts[name].reshape(len(x), n, width)
        return self.dense(f"blk.{i}.attn_{name}", x).reshape(len(x), n, width)

    def rope(self, i: int, x: Array) -> Array:
        """Rotate by complex multiplication: neighbours in llama, halves elsewhere."""
        n = self.key("rope.dimension_count", self.head_dim)
        base = self.key("rope.freq_base", 10000.0)
        factor = self.key("rope.scaling.factor", 1.0)
        if self.is_gemma and self.window(i):
            base, factor = self.key("rope.freq_base_swa", 10000.0), 1.0
        divisors = self.weights.get("rope_freqs.weight", np.ones(n // 2))
        freqs = base ** (-np.arange(0, n, 2) / n) / divisors / factor
        turn = np.exp(1j * np.arange(len(x))[:, None, None] * freqs)
        first, second = slice(0, n // 2), slice(n // 2, n)
        if self.arch == "llama":
            first, second = slice(0, n, 2), slice(1, n, 2)
        pairs = (x[..., first] + 1j * x[..., second]) * turn
        out = x.copy()
        out[..., first], out[..., second] = pairs.real, pairs.imag
        return out
