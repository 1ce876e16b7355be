"""The rounds of a benchmark that is not finished, in a file, so that the same command goes on where it ended.

The first line names what was measured, each other line is a round; a line that was cut off is measured again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from lbgen.bench.load import Load, LoadShape
from lbgen.bench.report import Sample

SUFFIX = ".partial"

RoundKey = tuple[int, LoadShape, str]  # number of the round, shape, subject


class PartialResults:
    """Those of `file`, if they are of the same `settings` (anything that JSON can write); else none."""

    def __init__(self, file: Path, settings: object) -> None:
        text = json.dumps(settings, sort_keys=True, default=str)
        self.digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
        self.file = file
        self.known: dict[RoundKey, Sample] = {}
        lines = file.read_text("utf-8").splitlines() if file.is_file() else []
        if lines and lines[0] == self.digest:
            self.known = dict(filter(None, map(_read, lines[1:])))
        # What follows a line that was cut off would be lost with it.
        file.write_text("".join([f"{self.digest}\n", *(_line(*each) for each in self.known.items())]), "utf-8")

    def add(self, key: RoundKey, sample: Sample) -> None:
        """Keep a round. Raises OSError."""
        self.known[key] = sample
        with self.file.open("a", encoding="utf-8") as out:
            out.write(_line(key, sample))

    def remove(self) -> None:
        """The benchmark is finished."""
        self.file.unlink(missing_ok=True)


def _line(key: RoundKey, sample: Sample) -> str:
    number, shape, subject = key
    return json.dumps({"round": number, "shape": asdict(shape), "subject": subject, "sample": asdict(sample)}) + "\n"


def _read(line: str) -> tuple[RoundKey, Sample] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    sample = found["sample"]
    key = (found["round"], LoadShape(**found["shape"]), found["subject"])
    return key, Sample(Load(**sample["load"]), sample["cpu"], sample["memory"], sample["softirq"])
