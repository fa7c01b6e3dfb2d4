"""`trajdiag show`: what a store holds, where it came from, and whether its bytes are still the
same."""

import json
import shlex
import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from trajdiag.cachedir import find_store
from trajdiag.commands.console import print_table
from trajdiag.errors import StoreError
from trajdiag.store.folder import Folder, open_folder
from trajdiag.store.inspection import inspect
from trajdiag.store.opening import existing_record
from trajdiag.store.reader import Store
from trajdiag.store.schema import ACCURACIES
from trajdiag.store.vocabulary import kept_logits, spoken_logits


def show(
    store: Annotated[
        str | None, Parameter(help="Name or path; the newest complete one by default.")
    ] = None,
    *,
    verify: Annotated[
        bool,
        Parameter(
            help="Read every byte and compare with the journal; name what is damaged, exit 1."
        ),
    ] = False,
    cache_dir: Annotated[
        str | None, Parameter(help="Cache root; $TRAJDIAG_CACHE or ./cache by default.")
    ] = None,
    json_output: Annotated[bool, Parameter(name="--json", negative=(), help="Print JSON.")] = False,
) -> None:
    """Show what a store holds."""
    location = find_store(store, cache_dir)
    print(location, file=sys.stderr)
    if verify:
        _verify(open_folder(location, cache_dir))
    opened = Store.open(location, unfinished=True, cache_dir=cache_dir)
    if verify and kept_logits(opened) == "none":
        _ = opened.head  # compared with its golden batch
    if json_output:
        print(json.dumps(_summary(opened), indent=1, ensure_ascii=False))
    else:
        _print(opened)


def _verify(folder: Folder) -> None:
    found = inspect(folder)
    for key in found.foreign:
        print(f"not trajdiag's, left alone: {key}", file=sys.stderr)
    for damage in found.damage:
        print(damage)
    if found.damage:
        commands = existing_record(folder).commands  # pyright: ignore[reportOptionalMemberAccess]
        again = ", or import the arrays"
        if commands:
            is_call, has_place = commands[0].startswith("#"), "--store" in commands[0]
            place = "" if is_call or has_place else f" --store {shlex.quote(folder.location)}"
            again = f": {commands[0]}{place}"
        first = "" if folder.appends else "remove these files and "
        raise StoreError(
            f"store {folder.location}: {len(found.damage)} damaged; {first}run what made it "
            f"again, which makes just their blocks anew{again}"
        )
    print(
        f"all {found.bytes:,} bytes of the {found.blocks} recorded blocks are what was written",
        file=sys.stderr,
    )


def _state(store: Store) -> str:
    """Whether all blocks are there, and which are not."""
    missing = store.missing
    if store.record.complete:
        return "complete"
    if not missing:
        return "unfinished: all blocks are there; run the extraction again to complete it"
    blocks = ", ".join(_runs(missing))
    return f"unfinished: {len(missing)} of {store.blocks} blocks are missing: {blocks}"


def _runs(numbers: list[int]) -> Iterator[str]:
    """Ascending numbers as runs: 1, 4-6."""
    start = 0
    for at in range(1, len(numbers) + 1):
        if at == len(numbers) or numbers[at] != numbers[at - 1] + 1:
            first, last = numbers[start], numbers[at - 1]
            yield str(first) if first == last else f"{first}-{last}"
            start = at


def _summary(store: Store) -> dict[str, object]:
    record = store.record
    return {
        **record.to_dict(),
        "store": store.name,
        "examples": {split: len(store.rows(split)) for split in store.splits},
        "loops": store.loops,
        "d_model": store.d_model,
        "classes": store.classes,
        "gate": store.has_gate,
        "signals": {"kept": list(store.kept_signals), "derived": _derived(store)},
        "vocabulary_logits": kept_logits(store),
        "accuracy": accuracy_by_score(store) if "test" in store.splits else {},
        "blocks": {"all": store.blocks, "missing": store.missing},
        "bytes": store.nbytes,
    }


def _print(store: Store) -> None:
    record, model = store.record, store.record.model
    counts = ", ".join(f"{split} {len(store.rows(split)):,}" for split in store.splits)
    facts = Table.grid(padding=(0, 2))
    for label, value in [
        ("store", store.name),
        ("model", f"{model['name']} ({model['family']}, weights {model['sha256'][:12]})"),
        ("from", " at ".join(filter(None, (model.get("source"), model.get("revision"))))),
        ("task", f"{record.task['name']} {json.dumps(record.task['parameters'])}"),
        ("examples", counts),
        ("shape", f"{store.loops} loops, d_model {store.d_model}, {store.classes} classes"),
        ("gate", "the model's own" if store.has_gate else "none"),
        ("signals kept", ", ".join(store.kept_signals)),
        ("signals derived", ", ".join(_derived(store)) or "none"),
        ("vocabulary", spoken_logits(store)),
        ("states", f"{record.store_dtype}, computed in {record.compute_dtype}"),
        ("size", f"{store.nbytes / 1e6:,.1f} MB"),
        ("state", _state(store)),
        ("created", record.created),
        ("fingerprint", record.fingerprint if record.complete else "none before it is complete"),
        ("made by", " ; ".join(record.commands)),
    ]:
        if value is not None:
            facts.add_row(label, escape(value))
    print_table(facts)
    if "test" in store.splits:
        print_table(_accuracies(store))


def _derived(store: Store) -> list[str]:
    """The signals that are computed from the states and logits when asked for."""
    return [name for name in store.signal_names if name not in store.kept_signals]


def _accuracies(store: Store) -> Table:
    """Test accuracy of every loop, in percent: the forced exits, by each score that was kept."""
    table = Table(title="test accuracy by loop, %", title_justify="left")
    table.add_column("")
    for loop in range(1, store.loops + 1):
        table.add_column(str(loop), justify="right")
    for name, accuracy in accuracy_by_score(store).items():
        table.add_row(name, *(f"{100 * value:.1f}" for value in accuracy))
    return table


def accuracy_by_score(store: Store) -> dict[str, list[float]]:
    """Test accuracy of each loop: as the task decides, and by every score of continuations."""
    found = {"as decided": store.correct("test").mean(0).tolist()}
    for name in store.score_names:
        found[ACCURACIES[name]] = store.correct("test", name).mean(0).tolist()
    return found
