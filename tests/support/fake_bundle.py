"""A small bundle whose files hold no code or model: enough for what checks and copies bundles."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

from ggufc.runtime.bundle import (
    MANIFEST,
    WEIGHTS,
    Checksums,
    Embedding,
    FileEntry,
    Limits,
    Manifest,
    ModelFacts,
    NativeObject,
    Source,
    State,
    Weight,
)

CHUNK = 4096
FILES = {
    "code/x86-64.o": b"\x7fELF" + bytes(range(256)),
    "tokenizer.json": b'{"kind": "bpe"}',
    "templates/chat_template.jinja": b"{{ messages }}",
    WEIGHTS: bytes(i * 7 % 251 for i in range(3 * CHUNK + 17)),
}


def manifest_of(files: dict[str, bytes]) -> Manifest:
    """A manifest that lists `files`, with their sizes and hashes."""
    weights = files[WEIGHTS]
    chunks = [weights[i : i + CHUNK] for i in range(0, len(weights), CHUNK)]
    return Manifest(
        format=3,
        abi=1,
        ggufc="0.1.0",
        source=Source("a.gguf", 10, "0" * 64),
        options={"kv_type": "bf16", "context": None},
        model=ModelFacts("tiny", "llama", 64, {"n_layers": 2}),
        limits=Limits(tokens=16, rows=16, sequences=2, context=64),
        graphs=("prefill", "decode", "embed"),
        embedding=Embedding(width=32, pooling=None),
        objects=(NativeObject("x86-64", "code/x86-64.o", "x86_64", (), 4096),),
        states=(State("blk.0.k", "bf16", 128, 0, "keys", 2),),
        prompt={},
        files=tuple(
            FileEntry(name, len(data), hashlib.sha256(data).hexdigest())
            for name, data in files.items()
        ),
        checksums=Checksums(CHUNK, tuple(zlib.crc32(c) for c in chunks)),
        weights=(Weight("w", "q8_0", (16, 32), "r16.q8_0", 0, 544),),
    )


def write_fake_bundle(folder: Path, manifest: Manifest | None = None) -> Path:
    """Write the bundle and return its folder."""
    for name, data in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / MANIFEST).write_bytes((manifest or manifest_of(FILES)).to_bytes())
    return folder
