"""Names that are one folder's everywhere."""

import os

import pytest

from trajdiag.errors import ConfigError
from trajdiag.names import require_name
from trajdiag.store.partial import partial_path


@pytest.mark.parametrize("name", ["a", "my rün", "x" * 120, "漢" * 53, "zarr.json.x", "+=,@%~-"])
def test_a_folders_name_passes_and_its_files_can_be_written(tmp_path, name):
    assert require_name("store", name) == name
    (tmp_path / f"{name}.zarr.discarded").mkdir()
    written = partial_path(tmp_path / f"{name}.json")
    assert len(os.fsencode(written.name)) <= 255


@pytest.mark.parametrize(
    "name",
    [
        "zarr.json",
        "Zarr.JSON",
        "",
        ".",
        "..",
        ".x",
        "a/b",
        "a\\b",
        "a\n",
        "\ud800",
        "x" * 121,
        "漢" * 54,
        "😀" * 41,
        None,
    ],
)
def test_what_cannot_be_one_is_refused_in_a_line(name):
    with pytest.raises(ConfigError, match="a store's name must be one folder's name") as caught:
        require_name("store", name)
    assert len(str(caught.value).splitlines()) == 1
