"""`trajdiag train`: a preset, with the options given on top."""

import dataclasses
from typing import Annotated, get_type_hints

from cyclopts import Parameter

from trajdiag.commands.console import to_stderr
from trajdiag.option_docs import field_docs
from trajdiag.training.config import PRESETS, TrainConfig, train_config
from trajdiag.training.trainer import train as train_checkpoint

_SET_BY_NAME = ("task", "task_options")
_PRESET_TASK = "mano"


def _options_type() -> type:
    """TrainConfig with every field left open, so that a preset shows through where no flag was
    given."""
    docs = field_docs(TrainConfig)
    hints = get_type_hints(TrainConfig)
    fields = []
    for field in dataclasses.fields(TrainConfig):
        if field.name in _SET_BY_NAME:
            continue
        values = {
            preset: getattr(by_task[_PRESET_TASK], field.name)
            for preset, by_task in PRESETS.items()
        }
        shown = {str(v) for v in values.values()}
        default = (
            next(iter(shown))
            if len(shown) == 1
            else ", ".join(f"{v} in {p}" for p, v in values.items())
        )
        help_text = (
            docs[field.name] if default == "None" else f"{docs[field.name]} [default: {default}]"
        )
        hint = hints[field.name]
        fields.append((field.name, Annotated[hint | None, Parameter(help=help_text)], None))
    made = dataclasses.make_dataclass("TrainOptions", fields, frozen=True, kw_only=True)
    made.__module__ = __name__
    return made


TrainOptions = _options_type()


def train(
    *,
    preset: Annotated[
        str,
        Parameter(help="`quick`: minutes on a CPU core; `paper`: the paper's sizes, for a GPU."),
    ] = "quick",
    task: Annotated[str, Parameter(help="A task's name, or package.module:Class.")] = "mano",
    task_options: Annotated[
        dict[str, str],
        Parameter(help="Options of the task: --task-options.max-difficulty 4."),
    ] = {},  # noqa: B006
    options: Annotated[
        TrainOptions,  # pyright: ignore[reportInvalidTypeForm]
        Parameter(name="*"),
    ] = TrainOptions(),  # noqa: B008
) -> None:
    """Train a small looped model on a synthetic task.

    Defaults are those of the preset for MANO; parity has its own sizes in `quick`. A killed run
    goes on where it was when the same command runs again.
    """
    given = {k: v for k, v in dataclasses.asdict(options).items() if v is not None}
    chosen = {key.replace("-", "_"): value for key, value in task_options.items()}
    config = train_config(preset, task, task_options=chosen, **given)
    print(train_checkpoint(config, to_stderr))
