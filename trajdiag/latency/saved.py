"""What was measured, kept: one JSON document a readout in CACHE/latency/STORE, and one of what was
decoded token by token in its folder `context-live`."""

import json
import os
import shlex
from datetime import UTC, datetime

from trajdiag.cachedir import latency_folder
from trajdiag.results import LatencyRow, Results
from trajdiag.store.durable import disk_errors, write_file
from trajdiag.store.reader import Store

LATENCY_VERSION = 1
_LIVE = "context-live"
_KEPT = ("store", "fingerprint", "model_sha256", "device", "dtype", "versions", "command")


def save_latency(results: Results, cache_dir: str | os.PathLike[str] | None) -> None:
    """Write the rows of each readout durably, in place of its earlier ones."""
    whole = results.to_dict()
    folder = latency_folder(whole["config"]["store"], cache_dir)
    if whole["config"]["context"] == "live":
        folder /= _LIVE
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for readout in dict.fromkeys(row["readout"] for row in whole["latency"]):
        content = {
            "trajdiag_latency": LATENCY_VERSION,
            "readout": readout,
            **{key: whole["config"][key] for key in _KEPT},
            "measured": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": [row for row in whole["latency"] if row["readout"] == readout],
        }
        text = json.dumps(content, indent=1, allow_nan=False)
        write_file(folder / f"{readout}.json", (text + "\n").encode())


def saved_latency(
    store: Store, cache_dir: str | os.PathLike[str] | None
) -> tuple[list[LatencyRow], list[str]]:
    """The rows that were measured on `store`, by readout's name; and the readouts whose file is
    damaged, of another version, or of another store of that name, with the option that measures
    them again."""
    rows: list[LatencyRow] = []
    stale = []
    folder = latency_folder(store.name, cache_dir)
    for path in [*sorted(folder.glob("*.json")), *sorted(folder.glob(f"{_LIVE}/*.json"))]:
        said = shlex.quote(path.stem) + " --context live" * (path.parent != folder)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            version, fingerprint = content["trajdiag_latency"], content["fingerprint"]
            found = [LatencyRow(**row) for row in content["rows"]]
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            stale.append(said)
            continue
        if (version, fingerprint) == (LATENCY_VERSION, store.fingerprint):
            rows += found
        else:
            stale.append(said)
    return rows, stale
