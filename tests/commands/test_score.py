"""`trajdiag score`: the columns are those of the targets that were asked for."""

import numpy as np
import pytest

from tests.trajectories import planted, solved_from
from trajdiag.cli import main


@pytest.mark.parametrize(
    ("targets", "columns"),
    [
        ((), ("depth@95", "depth@98", "depth@99")),
        (("0.9", "0.8"), ("depth@90", "depth@80")),
        (("0.625",), ("depth@62.5",)),
    ],
)
def test_every_target_that_was_asked_for_has_its_column(
    tmp_path, monkeypatch, capsys, targets, columns
):
    first = np.random.default_rng(0).integers(1, 5, 200)
    store = planted(tmp_path / "toy.zarr", solved_from(first, 4))
    options = [word for target in targets for word in ("--targets", target)]
    command = ["score", str(store.path), *options, "--n-resamples", "20"]
    monkeypatch.setenv("COLUMNS", "300")
    assert main(command) == 0
    out = capsys.readouterr().out
    found = [word for word in out.split() if word.startswith("depth@")]
    assert tuple(found) == columns
