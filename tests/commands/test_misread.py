"""A command line that cannot be read is answered with how it is written."""

import pytest

from trajdiag.cli import main


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            "score --threshold entropy",
            "--threshold is given by readout, as --threshold.entropy 0.3",
        ),
        (
            "score --threshold entropy 0.3",
            "--threshold is given by readout, as --threshold.entropy",
        ),
        ("score --threshold.entropy x", "--threshold.entropy must be a number, not x"),
        ("score --confidence x", "--confidence must be a number, not x"),
        (
            "extract --model m --task-options fit 3",
            "--task-options is given by name, as --task-options.fit 400, got 'fit'",
        ),
        ("train --steps 1e3", "--steps must be a whole number, not 1e3; write 1000"),
        ("train --steps 2,000", "--steps must be a whole number, not 2,000; write 2000"),
        ("train --steps many", "--steps must be a whole number, not many (see"),
        ("train --steps 1.5", "--steps: must be a whole number, not 1.5 (see"),
        ("score --n-resamples x", "--n-resamples must be a whole number, not x (see"),
        ("report --json", "report has no --json: report writes results.json beside"),
        ("report --csv", "report has no --csv: report writes tables/*.csv beside"),
        ("latency s --csv", "latency has no --csv: latency prints JSON by --json"),
        ("score --resample 3", "--resample"),
        ("latency s --readout entropy --threshold 3 4", "'4' belongs to no option; one that takes"),
        ("--cache-dir X", "options come after a command, as in trajdiag score --cache-dir"),
        ("--cache-dir X score", "options come after a command"),
    ],
)
def test_it_is_told_in_one_line(line, told, capsys):
    assert main(line.split()) == 2
    out, err = capsys.readouterr()
    assert out == "" and len(err.splitlines()) == 1
    assert told in err and len(err) < 300


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("--threshold 3", "name it too, as by --readout entropy --threshold 3"),
        ("--readout js --threshold 3 --threshold 4", "got 1 readout and 2 thresholds"),
        ("--readout js --readout top1 --threshold 3", "got 2 readouts and 1 threshold"),
    ],
)
def test_a_threshold_of_latency_has_its_readout(line, told, capsys, tmp_path):
    assert main(["latency", "s", "--cache-dir", str(tmp_path), *line.split()]) != 0
    assert told in capsys.readouterr().err
