"""The reference of diffsim.

python -m diffsim.reference NAME            print an entry, such as solve, diffsim.losses.L2Misfit or Simulation.value_and_grad
python -m diffsim.reference scene.data      print the keys of a part of a scene file; scene alone lists the parts
python -m diffsim.reference                 write all entries as pages, in Markdown, into the folder diffsim-reference
python -m diffsim.reference --out FOLDER    write them into this folder
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from diffsim.errors import DiffsimError
from diffsim.reference.lookup import entry_text
from diffsim.reference.pages import pages


def main(arguments: list[str] | None = None) -> int:
    """Print an entry or write the pages; the code that the command ends with."""
    parser = argparse.ArgumentParser(
        prog="python -m diffsim.reference", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="?", help="the name to look up; without it pages are written")
    parser.add_argument("--out", type=Path, default=Path("diffsim-reference"), help="folder of the pages (default: diffsim-reference)")
    options = parser.parse_args(arguments)
    try:
        if options.name is not None:
            print(entry_text(options.name), end="")
            return 0
        print(f"writing all entries as pages into the folder {options.out}; with a NAME its entry is printed instead")
        every = pages()
        options.out.mkdir(parents=True, exist_ok=True)
        for name, text in every.items():
            (options.out / name).write_text(text, encoding="utf-8")
    except (DiffsimError, OSError) as error:
        print(f"diffsim.reference: {error}", file=sys.stderr)
        return 2
    print(f"wrote {len(every)} pages; begin with {options.out / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
