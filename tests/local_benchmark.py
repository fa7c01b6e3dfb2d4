"""Benchmarks of lm-evaluation-harness made of local files: questions as JSON lines, and the task's
YAML."""

import json
from pathlib import Path
from typing import Any

METRICS = [
    {"metric": name, "aggregation": "mean", "higher_is_better": True}
    for name in ("acc", "acc_norm")
]


def sums(count: int, first: int = 0, choices: int = 3) -> list[dict[str, Any]]:
    """`count` different questions whose choices differ in length, and their answers."""
    return [
        {
            "question": f"What is {n} mod 7 ?",
            "options": [f"{n % 7}", f"the number {n}", f"maybe {n + 1} or {n + 2}"][:choices],
            "label": n % choices,
        }
        for n in range(first, first + count)
    ]


def write_benchmark(
    folder: Path, name: str, splits: dict[str, list[dict[str, Any]]], **config: Any
) -> str:
    """A multiple-choice task of these splits, of which train, validation and test are named as
    such; an option of None leaves the key out. Gives the folder, for include_path."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for split, rows in splits.items():
        files[split] = str(folder / f"{name}-{split}.jsonl")
        Path(files[split]).write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    named = {"train": "training", "validation": "validation", "test": "test"}
    task = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": files, "cache_dir": str(folder / "datasets")},
        "output_type": "multiple_choice",
        **{f"{key}_split": split for split, key in named.items() if split in splits},
        "doc_to_text": "Question: {{question}}\nAnswer:",
        "doc_to_choice": "options",
        "doc_to_target": "label",
        "metric_list": METRICS,
        "metadata": {"version": 2.0},
        **config,
    }
    kept = {key: value for key, value in task.items() if value is not None}
    # JSON is YAML.
    (folder / f"{name}.yaml").write_text(json.dumps(kept), encoding="utf-8")
    return str(folder)


def write_group(folder: Path, name: str, members: list[str]) -> str:
    """A group of tasks."""
    (folder / f"{name}.yaml").write_text(json.dumps({"group": name, "task": members}), "utf-8")
    return str(folder)
