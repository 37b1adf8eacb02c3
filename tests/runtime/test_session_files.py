"""Saved sessions: one that is restored goes on as if it had not been interrupted, and a file that
is not whole, or not this model's, is refused in one line."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ggufc.runtime import session_file
from ggufc.runtime.errors import SessionFileError
from ggufc.runtime.model import Model
from ggufc.runtime.session_file import HASHED_FROM, START, Header, header_for
from tests.support.sequences import ALL, bundle, random_ids


@pytest.mark.parametrize(("name", "kv_type"), [*((n, "bf16") for n in ALL), ("llama", "f32")])
def test_a_restored_session_goes_on_with_the_same_bits(
    tmp_path: Path, name: str, kv_type: str
) -> None:
    path = tmp_path / "s.session"
    with Model.load(bundle(name, kv_type), threads=2, context=200) as model:
        ids = random_ids(model, 1, 60)
        with model.session() as session:
            session.prefill(ids[:37])
            session.decode(ids[37])
            session.save(path, note={"of": name})
            expected = [session.decode(token).copy() for token in ids[38:45]]
            expected.append(session.prefill(ids[45:]).copy())
    # Another process would have other memory, context and sequence: so has this model.
    with Model.load(bundle(name, kv_type), threads=1, context=100) as model, model.session() as a:
        a.prefill(ids[20:30])
        with model.session() as b:
            b.prefill(ids[:50])
            assert b.restore(path) == {"of": name}
            assert b.ids == ids[:38]
            found = [b.decode(token).copy() for token in ids[38:45]]
            found.append(b.prefill(ids[45:]).copy())
    np.testing.assert_array_equal(found, expected)


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with Model.load(bundle("llama"), threads=1, context=128) as loaded:
        yield loaded


@pytest.fixture
def saved(model: Model, tmp_path: Path) -> Path:
    """A session of 20 tokens."""
    path = tmp_path / "s.session"
    with model.session() as session:
        session.prefill(random_ids(model, 2, 20))
        session.save(path, note=["a note"])
    return path


def test_only_used_positions_are_stored(model: Model, saved: Path) -> None:
    states = model.engine.states
    data = saved.read_bytes()
    header = json.loads(data[START.size : START.size + START.unpack_from(data)[2]])
    per_position = sum(state.position_bytes for state in model.manifest.states)
    assert sum(states.sizes(20)) == 20 * per_position
    expected = START.size + len(json.dumps(header)) + 20 * (4 + per_position) + header["note"]
    assert len(data) == expected


def test_nothing_of_what_was_there_before_is_stored(model: Model, tmp_path: Path) -> None:
    """The rows after the last token hold an earlier conversation."""
    paths = [tmp_path / "fresh", tmp_path / "used"]
    ids = random_ids(model, 3, 5)
    with model.session() as session:
        session.prefill(ids)
        session.save(paths[0])
        session.clear()
        session.prefill(random_ids(model, 4, 90))
        session.clear()
        session.prefill(ids)
        session.save(paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_an_empty_session_is_one_too(model: Model, tmp_path: Path) -> None:
    with model.session() as session:
        session.save(tmp_path / "empty")
        session.prefill(random_ids(model, 3, 5))
        assert session.restore(tmp_path / "empty") is None
        assert session.position == 0


def test_the_model_restores_for_later_prompts(model: Model, saved: Path) -> None:
    ids = random_ids(model, 2, 20)
    with model.restore(saved) as session:
        assert session.ids == ids
    result = model.generate([*ids, 5, 6], max_tokens=2, ignore_eos=True)
    assert result.usage.cached_tokens == 20


def test_generating_in_a_session_extends_it(model: Model, tmp_path: Path) -> None:
    prompt = random_ids(model, 6, 9)
    whole = model.generate(prompt, max_tokens=12, ignore_eos=True)
    with model.session() as session:
        first = model.generate(prompt, session=session, max_tokens=5, ignore_eos=True)
        session.save(tmp_path / "s")
    with model.restore(tmp_path / "s") as session:
        then = model.generate(prompt + first.ids, session=session, max_tokens=7, ignore_eos=True)
    assert then.usage.cached_tokens == len(prompt) + 4
    assert first.ids + then.ids == whole.ids


def refused(model: Model, path: Path) -> str:
    """The message with which a file is refused; the session is empty then and works."""
    ids = random_ids(model, 8, 12)
    with model.session() as session:
        session.prefill(ids[:4])
        with pytest.raises(SessionFileError) as caught:
            session.restore(path)
        assert session.position == 0
        np.testing.assert_array_equal(session.prefill(ids), model.logits(ids))
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    return message


def test_every_truncation_is_refused(model: Model, saved: Path) -> None:
    data = saved.read_bytes()
    for size in {*range(0, 80), *range(80, len(data), 997), len(data) - 1}:
        saved.write_bytes(data[:size])
        refused(model, saved)
    saved.write_bytes(data + b"\0")
    assert "truncated or damaged" in refused(model, saved)


def test_every_flipped_byte_is_refused(model: Model, saved: Path) -> None:
    data = saved.read_bytes()
    for at in {*range(0, 500, 3), *range(500, len(data), 1499), len(data) - 1}:
        saved.write_bytes(data[:at] + bytes([data[at] ^ 0x20]) + data[at + 1 :])
        refused(model, saved)


def forged(data: bytes, **changes: Any) -> bytes:
    """The file with other values in its header, and the hash that belongs to them."""
    count = START.unpack_from(data)[2]
    body = data[HASHED_FROM + count :]
    header = json.dumps(json.loads(data[HASHED_FROM : HASHED_FROM + count]) | changes).encode()
    digest = hashlib.sha256(header + body).digest()
    return START.pack(session_file.MAGIC, session_file.VERSION, len(header), digest) + header + body


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "0" * 64, "name": "other"}, "made with 'other' (sha256 '0000000000000...)"),
        ({"kv_type": "f16"}, "made with kv type 'f16', the bundle has bf16"),
        ({"states": "x"}, "its states have other shapes: made by another version"),
        ({"positions": 129}, "129 positions, the context holds 128"),
        ({"positions": -1}, "-1 positions"),
        ({"positions": 2**63}, "9223372036854775808 positions"),
        ({"positions": 10**1000}, "positions, the context holds 128"),
        ({"positions": 19}, "truncated or damaged"),
        ({"positions": 21}, "truncated or damaged"),
        ({"positions": True}, "positions: found True in the header"),
        ({"positions": 20.0}, "positions: found 20.0 in the header"),
        ({"note": 2**40}, "a note of 1099511627776 bytes"),
        ({"note": -3}, "a note of -3 bytes"),
        ({"note": 11}, "truncated or damaged"),
        ({"long": 1}, "long: found 1"),
        ({"more": 1}, "the header's keys are not model,"),
        ({"name": "x" * 20000}, "a header of 20"),
    ],
)
def test_headers_that_lie(model: Model, saved: Path, changes: dict[str, Any], message: str) -> None:
    saved.write_bytes(forged(saved.read_bytes(), **changes))
    assert message in refused(model, saved)


def test_forging_nothing_changes_nothing(model: Model, saved: Path) -> None:
    data = saved.read_bytes()
    assert forged(data) == data


def test_the_version_is_named(model: Model, saved: Path) -> None:
    data = bytearray(saved.read_bytes())
    struct.pack_into("<I", data, 8, 7)
    saved.write_bytes(data)
    assert "session version 7, this ggufc reads 1" in refused(model, saved)


@pytest.mark.parametrize("header", [b"[" * 5000, b"{}", b"[]", b"\xff\xfe", b"{" * 16])
def test_headers_that_are_none(model: Model, saved: Path, header: bytes) -> None:
    digest = hashlib.sha256(header).digest()
    saved.write_bytes(START.pack(session_file.MAGIC, 1, len(header), digest) + header)
    assert refused(model, saved).endswith("damaged")


def rewritten(model: Model, saved: Path, ids: list[int], note: bytes) -> None:
    """Put a file in place whose hash is right and whose content is not."""
    data = saved.read_bytes()
    count = START.unpack_from(data)[2]
    own = Header(**json.loads(data[HASHED_FROM : HASHED_FROM + count]))
    header = json.dumps(asdict(replace(own, note=len(note)))).encode()
    start = HASHED_FROM + count
    states = data[start + 80 : len(data) - own.note]
    body = header + np.array(ids, "<i4").tobytes() + states + note
    packed = START.pack(session_file.MAGIC, 1, len(header), hashlib.sha256(body).digest())
    saved.write_bytes(packed + body)


def test_tokens_outside_of_the_vocabulary(model: Model, saved: Path) -> None:
    rewritten(model, saved, [3] * 7 + [10**6] + [4] * 12, b"")
    assert "token id 1000000 at index 7: the vocabulary has ids" in refused(model, saved)


@pytest.mark.parametrize("note", [b"{", b"[" * 9000, b"\xff"])
def test_notes_that_are_not_json(model: Model, saved: Path, note: bytes) -> None:
    rewritten(model, saved, [3] * 20, note)
    assert refused(model, saved).endswith("its note is not JSON: damaged")


def test_other_bundles_refuse_it(saved: Path) -> None:
    for name, kv_type, message in [
        ("small/mamba", "bf16", "made with "),
        ("llama", "f32", "made with kv type 'bf16', the bundle has f32"),
    ]:
        with Model.load(bundle(name, kv_type), threads=1, context=128) as other:
            assert message in refused(other, saved)


def test_pipes_and_folders_are_refused(model: Model, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with model.session() as session:
        with pytest.raises(SessionFileError, match="not a regular file"):
            session.restore(tmp_path / "pipe")
        with pytest.raises(IsADirectoryError):
            session.restore(tmp_path)
        for path in (tmp_path, tmp_path / "pipe"):
            with pytest.raises(SessionFileError, match="not written over it"):
                session.save(path)


def test_a_failed_write_leaves_the_old_file(
    model: Model, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = saved.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with model.session() as session, pytest.raises(OSError, match="No space left") as caught:
        session.save(saved)
    assert caught.value.filename == str(saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_a_folder_that_takes_no_files_is_told_by_the_session(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "no such" / "a.session"
    with model.session() as session, pytest.raises(FileNotFoundError) as caught:
        session.save(path)
    assert (caught.value.filename, caught.value.filename2) == (str(path), None)


def test_a_session_is_private_and_goes_through_links(model: Model, tmp_path: Path) -> None:
    link, target = tmp_path / "link", tmp_path / "target"
    link.symlink_to(target)
    with model.session() as session:
        session.save(link)
    assert link.is_symlink()
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_link_that_leads_to_itself_is_not_replaced(model: Model, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(link)
    with model.session() as session, pytest.raises(OSError, match="Too many levels") as caught:
        session.save(link)
    assert caught.value.filename == str(link)
    assert link.is_symlink()


def test_headers_tell_models_apart(model: Model) -> None:
    own = header_for(model.manifest, 1, False, 0)
    other = replace(model.manifest, source=replace(model.manifest.source, sha256="1" * 64))
    assert header_for(other, 1, False, 0) != own
    fewer = replace(model.manifest, states=model.manifest.states[1:])
    assert header_for(fewer, 1, False, 0).states != own.states
