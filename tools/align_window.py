#!/usr/bin/env python3
"""align_window.py CLIP...: why a larger window aligns better: where the squared error goes between two windows.

A clip is a folder of images, of which the first two are used. Pixels are of three kinds, by what the flow of the noisy frames is beside that of the
clean ones (TV-L1): those whose clean flow and the flow back do not meet have no counterpart (or none that flow can find); where both flows are further
apart than the smaller window reaches, the flow is wrong; the rest is as it should be. Prints a Markdown table: share of pixels, mean squared
error with the smaller and with the larger window, and share of the whole gain, for each kind and clip.
    --small N --large N   sides of the windows (11, 33)    --noise S   (15)
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bindings", "python"))
import snls

parser = argparse.ArgumentParser()
parser.add_argument("clips", nargs="+")
parser.add_argument("--small", type=int, default=11)
parser.add_argument("--large", type=int, default=33)
parser.add_argument("--noise", type=float, default=15)
args = parser.parse_args()
KINDS = ("flow right", "flow wrong", "no counterpart")


def frames_of(folder):
    names = sorted(f for f in os.listdir(folder) if f.endswith((".png", ".jpg")))[:2]
    return [np.asarray(snls.image_read(os.path.join(folder, name)), np.float32) for name in names]


def kinds_of(clean, noisy):
    """The kind of every pixel, and the flow that the search starts from."""
    forward, backward = snls.flow(*clean, "tvl1"), snls.flow(*clean[::-1], "tvl1")
    _, meet = snls.flow_consistency(forward, backward)
    start = snls.flow(*noisy, "farneback")
    far = np.abs(start - forward).max(2) > args.small // 2
    return np.where(meet == 0, 2, np.where(far, 1, 0)), start


def errors(clean, noisy, flow, ws):
    """Squared error of every pixel of frame t+1, moved by a search on the noisy frames."""
    dist, offset = snls.search(noisy[0][None, None], noisy[1][None, None], flow[None, None, None], ws=ws, ps=3)
    moved = snls.gather_add(clean[1][None, None], np.ones_like(dist), offset, ps=3)[0, 0]
    return ((moved - clean[0]) ** 2).mean(2)


rows = []
print("| clip | kind | pixels | ws %d | ws %d | of the gain |\n|---|---|---|---|---|---|" % (args.small, args.large))
for clip in args.clips:
    clean = frames_of(clip)
    noisy = [snls.noise_add(frame[None], args.noise, seed=t)[0] for t, frame in enumerate(clean)]
    kind, flow = kinds_of(clean, noisy)
    before, after = errors(clean, noisy, flow, args.small), errors(clean, noisy, flow, args.large)
    for k, name in enumerate(KINDS):
        here = kind == k
        sums = np.array([here.mean(), (before * here).mean(), (after * here).mean()])
        rows.append(sums)
        gain = (sums[1] - sums[2]) / (before - after).mean()
        print("| %s | %s | %.1f %% | %.1f | %.1f | %.0f %% |" % (os.path.basename(clip.rstrip("/")), name, 100 * sums[0], sums[1] / max(sums[0], 1e-9),
                                                              sums[2] / max(sums[0], 1e-9), 100 * gain), flush=True)
total = np.array(rows).reshape(-1, 3, 3).mean(0)
for k, name in enumerate(KINDS):
    gain = (total[k, 1] - total[k, 2]) / (total[:, 1] - total[:, 2]).sum()
    print("| **all** | %s | %.1f %% | %.1f | %.1f | %.0f %% |" % (name, 100 * total[k, 0], total[k, 1] / total[k, 0], total[k, 2] / total[k, 0], 100 * gain))
