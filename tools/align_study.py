#!/usr/bin/env python3
"""align_study.py SNLS OUT CLIP...: the alignment experiment on many clips. A clip is a folder of images, or a video that ffmpeg turns into
one. Prints Markdown tables; writes OUT/align-ws.svg (PSNR over the window) and OUT/align-motion.svg (gain over motion).
    --frames N    frames used of each clip (10)
    --sweep N     frames used for the sweep over windows (2); 0 leaves it out
    --only NAME   one of the flow settings
"""
import argparse, json, os, shutil, subprocess, sys, tempfile

import math

FLOWS = {"farneback": ["--flow", "farneback"],
         "farneback, winsize 5": "--flow farneback --levels 5 --winsize 5 --iterations 10 --poly-sigma 1.2".split(),
         "dis": ["--flow", "dis"]}
WINDOWS = [1, 3, 11, 15, 21, 27, 33]
WAYS = ["none", "flow", "nls", "search", "keep"]
COLOURS = {"flow": "#888888", "nls": "#1f77b4", "search": "#d62728", "keep": "#2ca02c"}

parser = argparse.ArgumentParser()
parser.add_argument("snls")
parser.add_argument("out")
parser.add_argument("clips", nargs="+")
parser.add_argument("--frames", type=int, default=10)
parser.add_argument("--sweep", type=int, default=2)
parser.add_argument("--only")
args = parser.parse_args()
work = tempfile.mkdtemp()


def folder_of(clip, frames):
    """The first frames of a clip as a folder of their own."""
    name = os.path.splitext(os.path.basename(clip.rstrip("/")))[0]
    folder = os.path.join(work, "%s-%d" % (name, frames))
    if os.path.isdir(folder):
        return name, folder
    os.mkdir(folder)
    if os.path.isdir(clip):
        files = sorted(f for f in os.listdir(clip) if f.endswith((".png", ".jpg")))[:frames]
        for f in files:
            shutil.copy(os.path.join(clip, f), folder)
    else:
        subprocess.run(["ffmpeg", "-v", "error", "-i", clip, "-frames:v", str(frames), folder + "/%05d.png"], check=True, stdin=subprocess.DEVNULL)
    return name, folder


def align(folder, *options):
    said = subprocess.run([args.snls, "align", folder, os.path.join(work, "out.npy"), "-y", "--seed", "123", "--json", *options], check=True, capture_output=True).stdout
    return json.loads(said)


def mean(values):
    return sum(values) / len(values)


def axis(svg, x0, y0, x1, y1, xs, ys, place_x, place_y, label_x, label_y):
    svg.append('<rect x="%g" y="%g" width="%g" height="%g" fill="none" stroke="#444"/>' % (x0, y0, x1 - x0, y1 - y0))
    for v in xs:
        svg.append('<text x="%g" y="%g" text-anchor="middle">%g</text>' % (place_x(v), y1 + 16, v))
    for v in ys:
        svg.append('<line x1="%g" y1="%g" x2="%g" y2="%g" stroke="#ddd"/><text x="%g" y="%g" text-anchor="end">%g</text>' % (x0, place_y(v), x1, place_y(v), x0 - 6, place_y(v) + 4, v))
    svg.append('<text x="%g" y="%g" text-anchor="middle">%s</text>' % ((x0 + x1) / 2, y1 + 34, label_x))
    svg.append('<text x="14" y="%g" text-anchor="middle" transform="rotate(-90 14 %g)">%s</text>' % ((y0 + y1) / 2, (y0 + y1) / 2, label_y))


def write_svg(name, svg, width, height):
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, name), "w") as f:
        f.write('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12"><rect width="100%%" height="100%%" fill="white"/>\n%s\n</svg>\n'
                % (width, height, "\n".join(svg)))


def legend(svg, names, x, y):
    for i, (name, colour) in enumerate(names):
        svg.append('<rect x="%g" y="%g" width="12" height="12" fill="%s"/><text x="%g" y="%g">%s</text>' % (x, y + 18 * i, colour, x + 18, y + 10 + 18 * i, name))


def draw_windows(table):
    svg, low = [], math.floor(min(min(v) for v in table.values()))
    high = math.ceil(max(max(v) for v in table.values()))
    px = lambda w: 60 + 440 * w / 35
    py = lambda d: 320 - 300 * (d - low) / (high - low)
    axis(svg, 60, 20, 500, 320, WINDOWS, range(low, high + 1), px, py, "window side ws", "PSNR, dB")
    for way, values in table.items():
        svg.append('<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>' % (COLOURS[way], " ".join("%g,%g" % (px(w), py(v)) for w, v in zip(WINDOWS, values))))
    legend(svg, [(w, COLOURS[w]) for w in table], 390, 240)
    write_svg("align-ws.svg", svg, 520, 370)


def draw_motion(points):
    svg = []
    place = lambda m: math.log2(max(m, 0.0625))
    px = lambda m: 60 + 440 * (place(m) + 4) / 11
    gains = [g for _, s, k in points for g in (s, k)]
    low, high = min(-2, math.floor(min(gains))), math.ceil(max(gains))
    py = lambda d: 320 - 300 * (d - low) / (high - low)
    axis(svg, 60, 20, 500, 320, [0.125, 0.5, 2, 8, 32], range(low, high + 1, 2), px, py, "mean length of the flow, pixels", "gain over the unshifted search, dB")
    svg.append('<line x1="60" y1="%g" x2="500" y2="%g" stroke="#444"/>' % (py(0), py(0)))
    for motion, search, keep in points:
        svg.append('<circle cx="%g" cy="%g" r="3" fill="%s" fill-opacity="0.7"/><circle cx="%g" cy="%g" r="3" fill="%s" fill-opacity="0.7"/>'
                   % (px(motion), py(search), COLOURS["search"], px(motion), py(keep), COLOURS["keep"]))
    legend(svg, [("search", COLOURS["search"]), ("keep", COLOURS["keep"])], 75, 32)
    write_svg("align-motion.svg", svg, 520, 370)


points = []
try:
    for flow, options in FLOWS.items():
        if args.only and args.only != flow:
            continue
        print("\nFlow: %s\n\n| clip | motion | none | flow | nls | search | keep |\n|---|---|---|---|---|---|---|" % flow, flush=True)
        rows = []
        for clip in args.clips:
            name, folder = folder_of(clip, args.frames)
            report = align(folder, *options)
            row = [report["motion"]] + [report["psnr"][w] for w in WAYS]
            rows.append(row)
            points += [(p["motion"], p["search"] - p["nls"], p["keep"] - p["nls"]) for p in report["pairs"]]
            print("| %s | %.1f | %s |" % (name, row[0], " | ".join("%.2f" % v for v in row[1:])), flush=True)
        print("| **mean** | %.1f | %s |" % (mean([r[0] for r in rows]), " | ".join("**%.2f**" % mean([r[i] for r in rows]) for i in range(1, 6))), flush=True)
    draw_motion(points)
    worst = min(points, key=lambda p: p[2])
    print("\nWorst pair of %d: search %+.2f dB, keep %+.2f dB over the unshifted search." % (len(points), min(p[1] for p in points), worst[2]))
    if args.sweep:
        table = {w: [0] * len(WINDOWS) for w in ("flow", "nls", "search", "keep")}
        for i, ws in enumerate(WINDOWS):
            for clip in args.clips:
                report = align(folder_of(clip, args.sweep)[1], *FLOWS[args.only or "farneback"], "--ws", str(ws))
                for way in table:
                    table[way][i] += report["psnr"][way] / len(args.clips)
        print("\n| ws | %s |\n|---|%s" % (" | ".join(map(str, WINDOWS)), "---|" * len(WINDOWS)))
        for way, values in table.items():
            print("| %s | %s |" % (way, " | ".join("%.2f" % v for v in values)))
        draw_windows(table)
finally:
    shutil.rmtree(work)
