#!/usr/bin/python3
"""draw_paper_figures.py: the paper's figures of search time and memory, redrawn with snls in them.

    tools/draw_paper_figures.py bench/results/h200.json docs/paper-figures.svg

snls: from the JSON of `snls bench --device cuda`. The others: constants below, measured before on a GPU of the same kind
(one NVIDIA H200, CUDA 13.0, PyTorch 2.11, f32, median of 20 runs or more), and the numbers that the paper prints, of its own GPU.
Time: 5 frames of 320x320, ws 9, patches of one pixel, wt 1, K 3, products. Memory above the inputs: 5 frames of 152x152, F 192,
patches of 7 x 7 (NATTEN: one pixel).
"""
import json
import math
import sys

TIME = {  # ms by features
    "stnls, shifted": {16: 36.1, 32: 58.5, 64: 104.6, 128: 198.1},
    "N3Net": {16: 27.5, 32: 35.3, 64: 46.3, 128: 68.3},
    "NATTEN, not shifted": {16: 10.1, 32: 8.6, 64: 32.3, 128: 58.0},
}
TIME_PAPER = {"paper: shifted": {32: 84.36}, "paper: N3Net": {32: 490}, "paper: NATTEN": {32: 36.77}}
MEMORY = {  # GiB by ws
    "N3Net": {3: 12.2, 9: 12.5, 13: 12.8},
    "stnls, shifted": {3: 0.08, 9: 0.74, 13: 1.5},
}
MEMORY_PAPER = {"paper: N3Net": {3: 12.43}, "paper: shifted": {3: 0.33}, "paper: NATTEN": {3: 0.75, 13: 0.97}}
COLOURS = {"snls, shifted": "#c0392b", "stnls, shifted": "#1b6ca8", "N3Net": "#e08e2b", "NATTEN, not shifted": "#3f9c5a",
           "paper: shifted": "#1b6ca8", "paper: N3Net": "#e08e2b", "paper: NATTEN": "#3f9c5a"}
WIDTH, HEIGHT, PLOT_W, PLOT_H, TOP, LEFT = 940, 470, 300, 330, 60, 64


def snls_lines(report):
    time, memory = {}, {}
    for r in report["results"]:
        p = r["parameters"]
        if r["op"] != "search" or r["direction"] != "forward" or p["flow"] != "smooth" or p["dist"] != "prod":
            continue
        if p["stride0"] != 1 or p["stride1"] != 1:
            continue
        if r["group"] == "A":
            time[p["channels"]] = 1e3 * r["seconds"]
        if r["group"] == "B":
            memory[p["ws"]] = (r["output_bytes"] + r["scratch_bytes"]) / 2**30
    return dict(sorted(time.items())), dict(sorted(memory.items()))


class Panel:
    """Axes with logarithmic heights; x values are evenly spaced."""

    def __init__(self, out, left, title, xs, low, high, unit):
        self.out, self.left, self.xs, self.low, self.high = out, left, xs, low, high
        out.append(f'<text x="{left}" y="{TOP - 24}" class="title">{title}</text>')
        out.append(f'<text x="{left - 48}" y="{TOP - 8}" class="label">{unit}</text>')
        decade = low
        while decade <= high * 1.0001:
            y = self.y(decade)
            out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{left + PLOT_W}" y2="{y:.1f}" class="grid"/>')
            out.append(f'<text x="{left - 8}" y="{y + 4:.1f}" class="tick">{decade:g}</text>')
            decade *= 10
        for x in xs:
            out.append(f'<text x="{self.x(x):.1f}" y="{TOP + PLOT_H + 18}" class="under">{x}</text>')

    def x(self, value):
        return self.left + 20 + (PLOT_W - 40) * self.xs.index(value) / (len(self.xs) - 1)

    def y(self, value):
        return TOP + PLOT_H * (1 - math.log(value / self.low) / math.log(self.high / self.low))

    def draw(self, name, points, hollow):
        colour = COLOURS[name]
        at = [(self.x(x), self.y(v), v) for x, v in points.items() if x in self.xs]
        if len(at) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in at)
            dash = ' stroke-dasharray="4 4"' if hollow else ""
            self.out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        for x, y, v in at:
            fill = "#fff" if hollow else colour
            self.out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}"><title>{name}: {v:.3g}</title></circle>')
        if at and name.startswith("snls"):
            for x, y, v in at:
                self.out.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" class="value">{v:.2g}</text>')


def legend(out, names):
    for i, name in enumerate(names):
        y = TOP + 16 + 24 * i
        fill = "#fff" if name.startswith("paper") else COLOURS[name]
        out.append(f'<circle cx="{WIDTH - 168}" cy="{y}" r="5" fill="{fill}" stroke="{COLOURS[name]}"/>')
        out.append(f'<text x="{WIDTH - 156}" y="{y + 4}" class="label">{name}</text>')


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    time, memory = snls_lines(report)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">',
           "<style>.title{font-size:14px;font-weight:bold}.label{font-size:12px}.tick{font-size:11px;text-anchor:end}"
           ".under{font-size:11px;text-anchor:middle}.value{font-size:10px;text-anchor:middle;fill:#c0392b}.grid{stroke:#ddd}</style>",
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>']
    panels = [Panel(out, LEFT, "Time of a search, by features", [16, 32, 64, 128], 0.1, 1000, "ms"),
              Panel(out, LEFT + PLOT_W + 90, "Memory above the inputs, by ws", [3, 9, 13], 0.001, 100, "GiB")]
    for panel, ours, others, paper in ((panels[0], time, TIME, TIME_PAPER), (panels[1], memory, MEMORY, MEMORY_PAPER)):
        for name, points in others.items():
            panel.draw(name, points, False)
        for name, points in paper.items():
            panel.draw(name, points, True)
        panel.draw("snls, shifted", ours, False)
    legend(out, ["snls, shifted", *TIME, *TIME_PAPER])
    out.append(f'<text x="{LEFT}" y="{HEIGHT - 32}" class="label">Filled: one {report["machine"]["cpu"]}, f32, smooth flow. '
               "Hollow: the paper's numbers on its own GPU, zero flow.</text>")
    out.append(f'<text x="{LEFT}" y="{HEIGHT - 14}" class="label">Time: 5 x 320 x 320, ws 9, wt 1, K 3, single pixels. '
               "Memory: 5 x 152 x 152, F 192, patches 7 x 7 (NATTEN: single pixels).</text>")
    out.append("</svg>")
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.write("\n".join(out) + "\n")


main()
