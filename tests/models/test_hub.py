"""Models from the hub: what is downloaded, what a populated cache does, and what to do without."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.models.hub_cache import (
    COMMIT,
    UNREACHABLE,
    SmallHub,
    serving,
    snapshot_folder,
    use_hub,
)
from tests.models.random_ouro import random_decoder
from tests.models.tiny_tokenizer import write_tokenizer
from trajdiag.errors import CheckpointError, OutOfSpaceError, TrajdiagWarning, UnknownNameError
from trajdiag.models.checkpoint import weights_sha256, write_checkpoint
from trajdiag.models.hub import ALIASES, hub_name, is_cached, is_hub_id, snapshot
from trajdiag.models.registry import load_model

OURO = "ByteDance/Ouro-1.4B"
OTHER = "f" * 40


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty hub cache, and no network; the client says so by itself at once."""
    monkeypatch.chdir(tmp_path)
    use_hub(monkeypatch, tmp_path / "hub")
    return tmp_path / "hub"


def fill(folder: Path, **options) -> None:
    write_checkpoint(folder, random_decoder(), **options)
    write_tokenizer(folder, ["<eos>", "a", "b"], tokenizer_config={"eos_token": "<eos>"})


@pytest.mark.parametrize("offline", [True, False])
def test_an_alias_opens_from_a_populated_cache(cache, monkeypatch, offline):
    use_hub(monkeypatch, cache, offline=offline)
    fill(snapshot_folder(cache, OURO))
    began = time.monotonic()
    if offline:
        model = load_model("ouro-1.4b", device="cpu")
    else:
        with pytest.warns(TrajdiagWarning, match=f"cannot ask the hub for main.*commit {COMMIT}"):
            model = load_model("ouro-1.4b", device="cpu")
    assert time.monotonic() - began < 10, "the hub was asked again and again"
    record = model.record
    assert (record.name, record.source, record.revision) == ("ouro-1.4b", OURO, COMMIT)
    assert record.sha256 == weights_sha256(random_decoder())
    assert model.tokenizer.encode("b a") == [2, 1] and model.tokenizer.eos_token_id == 0


def test_a_commit_in_the_cache_is_opened_without_asking(cache):
    folder = snapshot_folder(cache, OURO, ref="")
    fill(folder)
    # No warning, which a hub that does not answer would give.
    assert snapshot(OURO, COMMIT).folder == folder
    assert load_model(OURO, revision=COMMIT, device="cpu").record.revision == COMMIT


def test_a_fresh_process_finds_the_cache_by_hf_home(tmp_path):
    fill(snapshot_folder(tmp_path / "hub", "someone/looped"))
    code = (
        "import sys, trajdiag\n"
        "print(trajdiag.load_model('someone/looped', device='cpu').record.revision)\n"
        "assert 'transformers' not in sys.modules"
    )
    hidden = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
    kept = {key: value for key, value in os.environ.items() if key not in hidden}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=kept | {"HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": UNREACHABLE},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout.strip()) == (0, COMMIT), done.stderr


@pytest.fixture
def hub(cache, monkeypatch, tmp_path):
    """A hub that answers, and holds more than is to be taken."""
    home = tmp_path / "at the hub"
    write_checkpoint(home, random_decoder(), max_shard_bytes=4096)
    write_tokenizer(home, ["<eos>", "a", "b"])
    for name in ("modeling_ouro.py", "pytorch_model.bin", "README.md", "onnx/model.safetensors"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("raise SystemExit")
    with serving(SmallHub(OURO, home)) as hub:
        use_hub(monkeypatch, cache, endpoint=hub.endpoint)
        yield hub


def test_only_weights_configs_and_tokenizers_are_downloaded(hub, cache, monkeypatch):
    model = load_model("ouro-1.4b", device="cpu")
    assert model.record.sha256 == weights_sha256(random_decoder())
    assert model.record.revision == COMMIT and model.tokenizer is not None
    folder = snapshot(OURO).folder
    got = sorted(path.name for path in folder.rglob("*"))
    shards = sorted(path.name for path in hub.folder.glob("*.safetensors"))
    index = "model.safetensors.index.json"
    assert len(shards) > 2 and got == sorted(["config.json", *shards, index, "tokenizer.json"])
    assert not [path for path in hub.asked if path.endswith((".py", ".bin"))]
    # What was downloaded is enough for the next time, without a network.
    use_hub(monkeypatch, cache, offline=True)
    assert is_cached(OURO) and load_model("ouro-1.4b", device="cpu").record.revision == COMMIT


def test_the_branch_moves_and_the_pinned_commit_does_not(hub, cache):
    fill(snapshot_folder(cache, OURO, OTHER))
    assert snapshot(OURO, OTHER).commit == OTHER and not hub.asked
    assert snapshot(OURO).commit == COMMIT
    assert snapshot(OURO, "main").commit == COMMIT


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        ((401, "GatedRepo"), r"Ouro-1.4B is gated: accept its terms at .* `hf auth login`"),
        ((401, "RepoNotFound"), r"no repository ByteDance/Ouro-1.4B .* and no folder here"),
        ((404, "RevisionNotFound"), r"has no revision 'main': give a branch, a tag or a whole"),
        ((503, ""), r"the hub does not answer \(HfHubHTTPError: .*503.* run `hf download Byte"),
    ],
)
def test_a_refusal_of_the_hub_says_what_to_do(hub, refusal, said):
    hub.refusal = refusal
    with pytest.raises(CheckpointError, match=said) as raised:
        load_model("ouro-1.4b")
    assert "\n" not in str(raised.value)


def test_a_refused_user_goes_on_with_what_the_cache_has(hub, cache):
    fill(snapshot_folder(cache, OURO))
    hub.refusal = (401, "GatedRepo")
    with pytest.warns(TrajdiagWarning, match=r"cannot ask the hub .*GatedRepoError.* going on"):
        assert snapshot(OURO).commit == COMMIT
    hub.refusal = (404, "RevisionNotFound")
    with pytest.raises(CheckpointError, match="no revision 'main'"):
        snapshot(OURO)


def test_a_repository_without_safetensors_is_named(hub):
    for path in hub.folder.glob("model*"):
        path.unlink()
    with pytest.raises(CheckpointError, match=rf"{OURO} at {COMMIT} lacks model.safetensors: only"):
        snapshot(OURO)


def test_a_full_disk_says_where_to_make_room(hub, monkeypatch):
    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("huggingface_hub._snapshot_download.hf_hub_download", full)
    with pytest.raises(OutOfSpaceError, match=f"no space left in .*hub for {OURO}; make room, or"):
        snapshot(OURO)


@pytest.mark.parametrize(
    ("offline", "why"),
    [(True, "HF_HUB_OFFLINE is set"), (False, r"the hub does not answer \(ConnectError: ")],
)
def test_nothing_cached_and_no_network_says_how_to_bring_it_here(cache, monkeypatch, offline, why):
    use_hub(monkeypatch, cache, offline=offline)
    began = time.monotonic()
    with pytest.raises(CheckpointError, match=why) as raised:
        load_model("ouro-1.4b")
    assert time.monotonic() - began < 10, "the hub was asked again and again"
    said = str(raised.value)
    assert f"not in the hub's cache {cache}, and" in said and "\n" not in said
    assert f"`hf download {OURO} --include '*.safetensors' --include '*.json'`" in said
    with pytest.raises(CheckpointError, match=f"at v2, and .*download {OURO} --revision v2 --inc"):
        snapshot(OURO, "v2")
    with pytest.raises(CheckpointError, match="runs/mine is no folder here and not in the hub's"):
        load_model("runs/mine")


def test_a_commit_that_no_branch_names_is_offered(cache):
    fill(snapshot_folder(cache, OURO, ref=""))
    with pytest.raises(CheckpointError, match=rf"at main \(it holds --revision {COMMIT}\)"):
        snapshot(OURO)


def test_an_interrupted_download_names_what_is_missing(cache):
    folder = snapshot_folder(cache, OURO)
    with pytest.raises(CheckpointError, match=r"lacks config.json, model.safetensors, and"):
        snapshot(OURO)
    write_checkpoint(folder, random_decoder(), max_shard_bytes=4096)
    assert is_cached(OURO)
    # A link to a blob that never came.
    second = next(folder.glob("model-00002-of-*.safetensors"))
    second.unlink()
    second.symlink_to("../../blobs/nowhere")
    assert not is_cached(OURO)
    for revision in ("main", COMMIT):
        with pytest.raises(
            CheckpointError, match=rf"incomplete .* lacks {second.name}, and the hub"
        ):
            snapshot(OURO, revision)


def test_the_interrupted_download_is_finished_where_the_hub_answers(hub, cache):
    snapshot_folder(cache, OURO)
    assert not is_cached(OURO)
    folder = snapshot(OURO).folder
    assert folder.name == COMMIT and is_cached(OURO)
    # A pinned commit is whole only with all the files that the hub was seen to list.
    (folder / "tokenizer.json").unlink()
    assert (snapshot(OURO, COMMIT).folder / "tokenizer.json").is_file()


@pytest.mark.parametrize("repository", ALIASES.values())
def test_every_alias_is_a_repository_and_names_its_models(repository):
    assert is_hub_id(repository)
    assert ALIASES[hub_name(repository)] == repository


def test_another_repository_names_its_models_itself():
    assert hub_name("someone/Looped-7B") == "Looped-7B"


@pytest.mark.parametrize(
    "name", ["ouro", "a/b/c", "./a", "../a", "/a/b", "a/", "a/b--c", "a/b.git"]
)
def test_what_cannot_be_a_repository_is_not_asked_for(cache, name):
    assert not is_hub_id(name)
    with pytest.raises(UnknownNameError, match=r"existing: .*huginn, .*a hub id \(owner/name\)"):
        load_model(name)


@pytest.mark.parametrize("offline", [True, False])
def test_a_damaged_cache_is_one_line_that_says_what_to_remove(cache, monkeypatch, offline):
    use_hub(monkeypatch, cache, offline=offline)
    fill(snapshot_folder(cache, OURO))
    branch = cache / "models--ByteDance--Ouro-1.4B" / "refs" / "main"
    for damage in (lambda: branch.write_bytes(b"\xff\xfe"), branch.mkdir):
        branch.unlink(missing_ok=True)
        damage()
        with pytest.raises(
            CheckpointError, match=r"look up 'main' of .*; .* remove .*refs"
        ) as said:
            load_model("ouro-1.4b")
        assert "\n" not in str(said.value)
        assert not is_cached(OURO)
