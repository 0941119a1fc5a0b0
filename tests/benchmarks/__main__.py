"""`make bench`: this package beside bert_score and torchmetrics, in turn on the same texts in one run.

The numbers of the packages are compared, too. Results are written after every section, as JSON, as a table with the
targets beside what was reached, and as two pictures.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import argparse
import dataclasses
import time
import warnings
from pathlib import Path

from tests.benchmarks import curve, idf, memory, pairwise, passes, ranks, validation
from tests.benchmarks.options import QUICK, Options
from tests.benchmarks.report import Section, machine, table, target_rows, write

SECTIONS = {
    "passes": passes.measure,
    "validation": validation.measure,
    "ranks": ranks.measure,
    "idf": idf.measure,
    "pairwise": pairwise.measure,
    "memory": memory.measure,
    "curve": curve.measure,
}


def main() -> None:
    """Measure the sections that were asked for."""
    arguments = parser().parse_args()
    if unknown := set(arguments.sections) - set(SECTIONS):
        parser().error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    warnings.simplefilter("ignore")
    options = QUICK if arguments.quick else Options()
    given = {name: getattr(arguments, name) for name in ("pairs", "large_pairs", "epochs", "epoch_pairs", "rounds")}
    given = {name: value for name, value in given.items() if value is not None}
    options = dataclasses.replace(options, compiled=not arguments.no_compile, **given)
    sections: dict[str, Section] = {}
    facts = machine()
    for name in arguments.sections or SECTIONS:
        begin = time.perf_counter()
        sections[name] = SECTIONS[name](options)
        write(arguments.output, facts, sections)
        print(f"\n## {name} ({time.perf_counter() - begin:.0f} s)\n\n{sections[name].title}\n")
        print(table(sections[name].rows), *sections[name].notes, sep="\n\n", flush=True)
        if sections[name].targets:
            print("\n" + table(target_rows(sections[name].targets)), flush=True)
    print(f"\nWritten to {arguments.output}.")


def parser() -> argparse.ArgumentParser:
    """Return what the command line may say."""
    made = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    made.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    made.add_argument("--output", type=Path, default=Path("build/bench"), help="folder for the results")
    made.add_argument("--quick", action="store_true", help="small sizes, to see that it works; no figures to quote")
    made.add_argument("--no-compile", action="store_true", help="leave out the rows of compiled blocks")
    made.add_argument("--pairs", type=int, help="pairs of one pass")
    made.add_argument("--large-pairs", type=int, help="pairs of one pass of the large model")
    made.add_argument("--epochs", type=int, help="epochs of validation")
    made.add_argument("--epoch-pairs", type=int, help="pairs of an epoch, and of the passes with idf")
    made.add_argument("--rounds", type=int, help="how often each is measured")
    return made


if __name__ == "__main__":
    main()
