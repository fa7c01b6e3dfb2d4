"""`trajdiag fit-gate`."""

from typing import Annotated

from cyclopts import Parameter

from trajdiag.cachedir import gates_folder, readouts_folder
from trajdiag.commands.console import say_store, to_stderr
from trajdiag.commands.deploying import deploy, read_target
from trajdiag.deployment.choosing import require_loops
from trajdiag.gates.config import FitGateConfig
from trajdiag.gates.frozen_fit import fit_gate as fit_gate_on_store
from trajdiag.names import options_of
from trajdiag.store.durable import require_writable
from trajdiag.store.reader import open_store


def fit_gate(
    store: Annotated[
        str | None, Parameter(help="Name or path; the newest complete one by default.")
    ] = None,
    *,
    target: Annotated[
        str | None,
        Parameter(
            help="Then choose the gate's threshold, as `score --target` does: accuracy=SHARE, "
            "depth=LOOPS or risk=SHARE."
        ),
    ] = None,
    delta: Annotated[
        float | None,
        Parameter(help="The chance that the promised risk is broken; 0.05 when absent."),
    ] = None,
    options: Annotated[FitGateConfig, Parameter(name="*")] = FitGateConfig(),  # noqa: B008
) -> None:
    """Fit a halting gate on a store's frozen states or signals.

    Learns on the fit examples and stops early on val. Prints the gate's folder; `score` and
    `report` take it up by themselves.
    """
    asked = read_target(target, delta, cache_dir=options.cache_dir)
    say_store([] if store is None else [store], options.cache_dir)
    opened = open_store(store, options.cache_dir)
    if asked is not None:
        require_loops(opened, asked)
        require_writable(readouts_folder(opened.name, options.cache_dir))
    gate = fit_gate_on_store(opened, progress=to_stderr, **options_of(options))
    print(gates_folder(opened.name, options.cache_dir) / gate.name)
    if asked is not None:
        deploy([opened], [gate.name], asked)
