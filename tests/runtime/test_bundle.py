"""The manifest round-trips, and every way to damage a bundle is found and named."""

from dataclasses import replace
from pathlib import Path

import pytest

from ggufc.runtime.bundle import MANIFEST, WEIGHTS, Bundle, FileEntry, Manifest
from ggufc.runtime.errors import BundleError
from ggufc.runtime.memory import load_weights
from tests.support.fake_bundle import FILES, manifest_of, write_fake_bundle


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_fake_bundle(tmp_path / "tiny.ggufc")


def test_manifest_round_trips_to_the_same_bytes() -> None:
    manifest = manifest_of(FILES)
    content = manifest.to_bytes()
    assert Manifest.from_bytes(content) == manifest
    assert Manifest.from_bytes(content).to_bytes() == content


@pytest.mark.parametrize("name", ["café 模型", "a\nb: 'c'", "- !!python/object:os.system"])
def test_any_name_survives(name: str) -> None:
    manifest = manifest_of(FILES)
    named = replace(manifest, model=replace(manifest.model, name=name))
    assert Manifest.from_bytes(named.to_bytes()).model.name == name


def test_opening_checks_and_reads(folder: Path) -> None:
    bundle = Bundle.open(folder)
    assert bundle.manifest == manifest_of(FILES)
    assert bundle.read("tokenizer.json") == FILES["tokenizer.json"]
    for threads in (1, 3):
        for mapped in (False, True):
            weights = load_weights(bundle, threads=threads, mapped=mapped)
            assert weights.tobytes() == FILES[WEIGHTS]


def everything(folder: Path) -> None:
    """What every start does."""
    load_weights(Bundle.open(folder), threads=2)


@pytest.mark.parametrize("name", [*FILES, MANIFEST])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("bit", [0, 7])
def test_one_flipped_bit_in_any_file_is_found(
    folder: Path, name: str, place: str, bit: int
) -> None:
    data = bytearray((folder / name).read_bytes())
    at = {"first": 0, "middle": len(data) // 2, "last": len(data) - 1}[place]
    data[at] ^= 1 << bit
    (folder / name).write_bytes(data)
    with pytest.raises(BundleError) as caught:
        everything(folder)
    assert str(folder / name) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("mapped", [False, True])
def test_weights_errors_name_offset_and_both_values(folder: Path, mapped: bool) -> None:
    data = bytearray(FILES[WEIGHTS])
    data[5000] ^= 1
    (folder / WEIGHTS).write_bytes(data)
    bundle = Bundle.open(folder)
    with pytest.raises(
        BundleError, match=r"crc32 of the 4096 bytes at 4096 is \w{8}, .* says \w{8}"
    ):
        load_weights(bundle, threads=2, mapped=mapped)
    with pytest.raises(BundleError, match=r"weights.bin: sha256 \w{64}, the manifest says \w{64}"):
        bundle.verify()


@pytest.mark.parametrize("name", list(FILES))
def test_missing_and_resized_files(folder: Path, name: str) -> None:
    path = folder / name
    path.write_bytes(FILES[name][:-1])
    with pytest.raises(BundleError, match=rf"{len(FILES[name]) - 1} bytes, the manifest says"):
        Bundle.open(folder)
    path.unlink()
    with pytest.raises(BundleError, match="missing, the manifest lists it"):
        Bundle.open(folder)
    path.mkdir()
    with pytest.raises(BundleError, match="not a regular file"):
        Bundle.open(folder)


@pytest.mark.parametrize(
    "path", ["../secret", "/etc/passwd", "code/../../secret", "", "code\\..\\x", "."]
)
def test_paths_never_leave_the_bundle(tmp_path: Path, path: str) -> None:
    manifest = manifest_of(FILES)
    listed = replace(manifest, files=(*manifest.files, FileEntry(path, 1, "0" * 64)))
    folder = write_fake_bundle(tmp_path / "b.ggufc", listed)
    with pytest.raises(BundleError):
        Bundle.open(folder)


@pytest.mark.parametrize("linked", ["tokenizer.json", "code"])
def test_links_inside_a_bundle_are_refused(folder: Path, linked: str) -> None:
    (folder / linked).rename(folder.parent / "elsewhere")
    (folder / linked).symlink_to(folder.parent / "elsewhere")
    with pytest.raises(BundleError, match="is a symbolic link"):
        Bundle.open(folder)


def test_the_bundle_itself_may_be_a_link(folder: Path) -> None:
    link = folder.parent / "link"
    link.symlink_to(folder)
    everything(link)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such file or folder"):
        Bundle.open(tmp_path / "none")
    with pytest.raises(BundleError, match=r"there is no manifest\.yaml"):
        Bundle.open(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(BundleError, match="not a folder"):
        Bundle.open(tmp_path / "file")


def with_hash(body: bytes) -> bytes:
    """A manifest with a correct first line."""
    import hashlib

    return b"manifest_sha256: " + hashlib.sha256(body).hexdigest().encode() + b"\n" + body


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"[", "not YAML"),
        (b"3", "bundle format None, this ggufc reads 3"),
        (b"format: 2", "bundle format 2, this ggufc reads 3: compile the model again"),
        (b"format: 3", "missing key 'abi'"),
        (b"format: 2\nx: !!python/name:os.system", "not YAML"),
    ],
)
def test_bad_manifests(body: bytes, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        Manifest.from_bytes(with_hash(body))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"\nabi: 1", b"\nabi: 2", "code interface 2, this ggufc calls 1"),
        (
            b"vocab_size: 64",
            b"vocab_size: many",
            "model.vocab_size: expected int, found str 'many'",
        ),
        (b"vocab_size: 64", b"vocab_size: true", "model.vocab_size: expected int, found bool"),
        (b"\nstates:\n", b"\nstates: 3\nunused:\n", "unknown key 'unused'"),
        (b"isa: x86-64,", b"isa: [],", r"objects\[0\].isa: expected str, found list"),
    ],
)
def test_bad_values_name_their_key(old: bytes, new: bytes, message: str) -> None:
    body = manifest_of(FILES).to_bytes().partition(b"\n")[2]
    assert old in body
    with pytest.raises(BundleError, match=message):
        Manifest.from_bytes(with_hash(body.replace(old, new)))
