"""The table and the plot of peers.json: `python scripts/bench/peer_report.py FOLDER` writes peers.md and peers.png anew."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from common import median, ratios
from matplotlib.figure import Figure
from peer_process import TOO_LONG

NO_MEANS = "-"
COLOURS = ("black", "tab:blue", "tab:orange", "tab:green", "tab:red", "tab:purple", "tab:brown")
Found = dict[str, Any]


def write(folder: Path) -> None:
    """Write the table and the plot beside `folder`/peers.json."""
    results = json.loads((folder / "peers.json").read_text())
    (folder / "peers.md").write_text(page(results))
    plotted(results).savefig(folder / "peers.png", dpi=130)


def page(found: Found) -> str:
    """The page in Markdown."""
    theirs = [peer for peer in found["peers"] if peer["name"] != "diffsim"]
    lines = [
        "# Beside other packages",
        "",
        "Command: `python scripts/bench/peers.py" + (" --quick" if found["quick"] else "") + "`.",
        "",
        "Whole calls, from NumPy arrays to NumPy arrays, in f32 unless a row says otherwise; compilation is apart. Each entry is the",
        "median time, and in brackets the time over that of diffsim in turns with it (median over turns; above 1: diffsim is faster). All",
        "compute the same discrete problem. Their results were compared first: the last column has the largest difference from those of",
        "diffsim, relative to the largest value.",
        "",
        f"Processor: {found['machine']['processor']}. {found['machine']['software']}.",
    ]
    for threads in sorted({entry["threads"] for entry in found["entries"]}):
        plural = "s" if threads > 1 else ""
        lines += ["", f"## {threads} thread{plural}", ""]
        lines.append("| | diffsim | " + " | ".join(peer["title"] for peer in theirs) + " | largest difference |")
        lines.append("|---" * (len(theirs) + 3) + "|")
        for row in found["rows"]:
            entries = {e["peer"]: e for e in found["entries"] if e["row"] == row["name"] and e["threads"] == threads}
            if entries:
                lines.append(_line(row, entries, theirs))
    lines += ["", "![Time over that of diffsim](peers.png)", "", "## What the peers do", ""]
    for peer in theirs:
        versions = f" ({peer['versions']})" if peer["versions"] else ""
        lines.append(f"- {peer['title']}{versions}: {peer['notes']}")
        lines += [f"    - {text}" for text in _reasons(found, peer["name"])]
    lines += [f"- {name}: {reason}" for name, reason in found["absent"].items()]
    return "\n".join(lines) + "\n"


def _line(row: Found, entries: dict[str, Found], theirs: list[Found]) -> str:
    timed = [entry for entry in entries.values() if not entry["cannot"]]
    own = _time(median([s for entry in timed for s in entry["ours"]])) if timed else NO_MEANS
    cells = [_cell(entries.get(peer["name"])) for peer in theirs]
    worst = max((entry["error"] for entry in timed), default=None)
    return " | ".join([f"| {row['title']}", own, *cells, NO_MEANS if worst is None else f"{worst:.0e}"]) + " |"


def _cell(entry: Found | None) -> str:
    if entry is None:
        return NO_MEANS
    if entry["cannot"]:
        return entry["cannot"].replace(TOO_LONG, "> ") if entry["cannot"].startswith(TOO_LONG) else NO_MEANS
    return f"{_time(median(entry['seconds']))} ({ratios(entry['seconds'], entry['ours'])[0]:.2f})"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1e3 * seconds:.3g} ms"


def _reasons(found: Found, peer: str) -> list[str]:
    """Why a peer has no entry, each reason once, with the rows that it holds for."""
    titles = {row["name"]: row["title"] for row in found["rows"]}
    reasons: dict[str, list[str]] = {}
    for entry in found["entries"]:
        if entry["peer"] == peer and entry["cannot"]:
            rows = reasons.setdefault(entry["cannot"], [])
            if titles[entry["row"]] not in rows:
                rows.append(titles[entry["row"]])
    return [f"no entry ({reason}): {'; '.join(rows)}" for reason, rows in reasons.items()]


def plotted(found: Found) -> Figure:
    """A line for each row with a mark for each peer, at its time over diffsim's; a panel for each number of threads."""
    counts = sorted({entry["threads"] for entry in found["entries"]})
    theirs = [peer for peer in found["peers"] if peer["name"] != "diffsim"]
    rows = found["rows"]
    figure = Figure(figsize=(6.2 + 4.2 * len(counts), 1.6 + 0.42 * len(rows)), layout="constrained")
    panels = figure.subplots(1, len(counts), sharey=True, squeeze=False)
    heights = {row["name"]: len(rows) - k for k, row in enumerate(rows)}
    for panel, threads in zip(panels[0], counts, strict=True):
        panel.axvline(1, color="0.4", linewidth=1)
        for k, peer in enumerate(theirs):
            entries = [e for e in found["entries"] if e["peer"] == peer["name"] and e["threads"] == threads and not e["cannot"]]
            x = [ratios(e["seconds"], e["ours"])[0] for e in entries]
            panel.plot(x, [heights[e["row"]] for e in entries], "o", color=COLOURS[k % len(COLOURS)], label=peer["title"], alpha=0.85)
        panel.set_xscale("log")
        panel.set_xlabel("time over that of diffsim (right of the line: diffsim is faster)")
        panel.set_title(f"{threads} thread{'s'[: threads > 1]}")
        panel.grid(axis="both", color="0.9", linewidth=0.6)
        panel.set_axisbelow(True)
    panels[0][0].set_yticks([heights[row["name"]] for row in rows], [row["title"] for row in rows])
    panels[0][0].set_ylim(0.4, len(rows) + 0.6)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=max(1, len(theirs)), frameon=False)
    return figure


if __name__ == "__main__":
    write(Path(sys.argv[1]))
