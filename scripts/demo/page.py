"""Writes one page about a run of ./demo, with its pictures in it: page.py FOLDER TOLD WORLD PART...

WORLD is `real` where programs ran, else `simulated`. TOLD has a file `told-PART` for each part: the description in its
first line, then the table as it was printed.
"""

import html
import pathlib
import re
import sys

INTRODUCTION = {
    "real": "Unmodified programs over bad networks, first plainly, then with Trackway, on this machine. Real programs are never "
    "timed twice the same.",
    "simulated": "Bad networks in the simulator, first plainly, then with Trackway. The same run gives the same figures.",
}
SIMULATED = "`trackway sim run` with the protocols that the gateway runs, too; `sudo ./demo` runs real programs."
TITLES = {
    "hbh": "Radios that lose packets: HBH",
    "nc": "Two sites and a bad link: the coded tunnel",
    "hf": "An HF modem: HF-PEP",
    "manet": "Radios that move: routing and HBH",
    "messages": "Messages on a slow net: S/R",
}
RUN = {
    "hbh": "`trackway run` with `[hbh]` on each of five nodes; `curl` and `iperf3` from end to end, first without it.",
    "nc": "`trackway run` with `[tunnel]` on the two gateways; `curl` and `iperf3` on hosts behind them.",
    "hf": "`trackway hf` as two nodes, modems and the channel; `trackway run` with `[ipclient]`, `[hfpep]` and `[[tls]]` beside "
    "each; `ping` and `curl`.",
    "manet": "`trackway air` as the radios, `trackway run` with `[routing]` on each node, then with `[hbh]` too; `curl`.",
    "messages": "`trackway air` as the net; each host's program sends by TCP, by UDP, and by `trackway send` with `[sar]`.",
}
MEANING = {
    "hbh": "TCP takes each loss for congestion and slows down; over several hops it nearly stops. HBH repairs every hop "
    "where the loss happens, within that hop's round trip, so TCP sees a slow link instead of a lossy one. Datagrams arrive, too.",
    "nc": "The tunnel adds repairs in proportion to the loss, so that what is lost is computed from what arrives. TCP inside "
    "keeps its rate; the price is the packets in the row of the air.",
    "hf": "IP over HF waits for the radio to turn round at every handshake and acknowledgement. HF-PEP ends TCP beside the "
    "program and sends its octets as one compressed stream. TLS from end to end hides the text from compression and costs round "
    "trips; TLS proxies at the gateways give both back.",
    "manet": "Routing gives the moving node a way at all. These radios retransmit by themselves, so HBH has little left to "
    "repair and may be slower: add it where radios lose packets.",
    "messages": "A TCP connection takes many transmissions for one message, and UDP gives up what is lost. S/R repeats what is "
    "missing and nothing else, so that all messages arrive.",
}
PICTURES = {"hf": ["hf.svg"], "messages": ["messages-tcp-*.svg", "messages-sar-*.svg"]}
STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #5b6570; --ground: #fff; --box: #f3f5f7; --gain: #1a7f5a; --plain: #b5531b; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --dim: #9aa5b1; --ground: #14171a; --box: #1f2429; --gain: #4cc38a; --plain: #e08a55; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground); margin: 0 auto; max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
table { border-collapse: collapse; width: 100%; margin: .6rem 0; font-size: .85rem; font-variant-numeric: tabular-nums; }
td, th { padding: .15rem .4rem; border-bottom: 1px solid var(--box); text-align: right; } td { white-space: nowrap; }
td:first-child, th:first-child { text-align: left; padding-left: 0; white-space: normal; } td.inset { padding-left: 1rem !important; }
.dim { color: var(--dim); overflow-wrap: anywhere; } .picture, .scroll { overflow-x: auto; } .picture { background: #fff; border-radius: 4px; }
.picture svg { width: 100%; min-width: 42rem; height: auto; } iframe { width: 100%; height: 34rem; border: 1px solid var(--dim); }
td.group { color: var(--dim); padding-top: .6rem; } a { color: inherit; }
.bar { display: grid; grid-template-columns: 8rem 1fr 6rem; gap: .3rem .6rem; align-items: center; margin: .6rem 0; font-size: .9rem; }
.bar i { display: block; height: 1.1rem; border-radius: 2px; }
@media (max-width: 30rem) { .bar { grid-template-columns: 5.5rem 1fr 4.5rem; } table { font-size: .75rem; } td, th { padding: .15rem; }
  iframe { height: 44rem; } }
@media print { section { break-inside: avoid; } iframe { display: none; } }
"""


def main():
    out, told, world, parts = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4:]
    sections = []
    for part in parts:
        file = told / f"told-{part}"
        if file.exists():
            sections.append(section(out, world, part, file.read_text()))
    page = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Trackway: what the demo measured</title><style>{STYLE}</style>
<h1>Trackway: what the demo measured</h1>
<p>{INTRODUCTION[world]}</p>
{"".join(sections)}
</html>
"""
    (out / "index.html").write_text(page)


def section(out, world, part, text):
    description, _, table = text.partition("\n\n")
    run = f"{RUN[part]} Again: `sudo ./demo {part}`" if world == "real" else SIMULATED
    code = re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(run))
    return f"""<section id="{part}">
<h2>{TITLES[part]}</h2>
<p>{html.escape(" ".join(description.split()))}</p>
{bars(table)}
{rows(table, out)}
{pictures(out, part)}
<p><b>What was run.</b> {code}</p>
<p><b>What it means.</b> {html.escape(MEANING[part])}</p>
</section>
"""


def rows(table, out):
    """The table as one of HTML, which scrolls by itself on a narrow screen; an empty line ends it. Other lines as text,
    with links to the files that they name."""
    shown, columns = "", 0
    for line in table.splitlines():
        cells = [html.escape(cell) for cell in re.split(r"\s{2,}", line.strip())]
        is_indented = line.startswith(" " * 20)
        cells = [""] + cells if is_indented else cells
        if columns and not line.strip():
            shown, columns = shown + "</table></div>\n", 0
        elif columns and len(cells) == 1:
            shown += f'<tr><td class="group" colspan="{columns}">{cells[0]}</td></tr>\n'
        elif len(cells) > 1:
            is_head = is_indented or not columns and len(cells) > 2 and not re.search(r"\d", "".join(cells[1:]))
            if not columns:
                shown, columns = shown + '<div class="scroll"><table>\n', len(cells)
            # A row may end early: nothing divides by what is not there.
            cells += [""] * (columns - len(cells))
            kind = "th" if is_head else "td"
            inset = ' class="inset"' if line.startswith("  ") and not is_head else ""
            others = "".join(f"<{kind}>{cell}</{kind}>" for cell in cells[1:])
            shown += f"<tr><{kind}{inset}>{cells[0]}</{kind}>{others}</tr>\n"
        elif line.strip():
            file = re.escape(html.escape(f"{out}/")) + r"([\w-]+\.\w+)"
            text = re.sub(file, r'<a href="\1">\1</a>', html.escape(line.strip()))
            shown += f'<span class="dim">{text}</span>\n'
    return shown + ("</table></div>" if columns else "")


def bars(table):
    """Bars for the first row that has a time without and with Trackway, named as its columns; or for pages by http, each
    in a row of its own."""
    names = ["plain", "with Trackway"]
    pages = re.findall(r"^http, (.+?)\s{2,}\S+ s\s+(\S+) s\b", table, re.MULTILINE)
    if len(pages) == 2:
        return drawn([(html.escape(name), float(time)) for name, time in pages])
    for line in table.splitlines():
        times = re.findall(r"(\d+(?:\.\d+)?) s\b", line)
        if line.startswith(" " * 20):
            names = [html.escape(name) for name in re.split(r"\s{2,}", line.strip())[:2]]
        elif ":" in line and len(times) == 2 or line.startswith("curl") and len(times) == 2:
            return drawn(list(zip(names, map(float, times))))
    return ""


def drawn(times):
    """A bar for what was measured plainly, and one for Trackway."""
    longest = max(time for _, time in times) or 1
    cells = "".join(
        f'<span>{name}</span><i style="width:{100 * time / longest:.1f}%;background:var(--{colour})"></i><span>{time:g} s</span>'
        for (name, time), colour in zip(times, ["plain", "gain"])
    )
    said = ", ".join(f"{time:g} s {name}" for name, time in times)
    return f'<div class="bar" role="img" aria-label="{said}">{cells}</div>'


def pictures(out, part):
    found = [path for pattern in PICTURES.get(part, []) for path in sorted(out.glob(pattern))[:1]]
    shown = ""
    for path in found:
        svg = re.sub(r"<\?xml[^>]*\?>|<!DOCTYPE[^>]*>", "", path.read_text())
        shown += f'<div class="picture" title="{html.escape(path.name)}">{svg}</div>\n'
    moving = out / "manet.html"
    if part == "manet" and moving.exists():
        inside = html.escape(moving.read_text())
        shown += f'<iframe title="the same nodes in the simulator" srcdoc="{inside}"></iframe>\n'
    return shown


main()
