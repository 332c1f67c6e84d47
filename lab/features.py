#!/usr/bin/env python3
"""features.py: features of a real clip for lab/cpu.c: two layers of 3 x 3 convolutions with random weights, the first with a ReLU, of five frames with noise or without.

    ffmpeg -i CLIP -frames:v 5 -vf crop=160:160 -f rawvideo -pix_fmt rgb24 clip.rgb
    lab/features.py clip.rgb SIDE F SIGMA out.f32            SIGMA of 255; then FEATURES=out.f32 ./cpu l2 SIDE F 1 9 1 3 zero
"""
import sys

import numpy as np


def layer(video, weights):
    """(T,H,W,C) with (3,3,C,F), borders repeated."""
    height, width = video.shape[1:3]
    padded = np.pad(video, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    return sum(padded[:, y:y + height, x:x + width] @ weights[y, x] for y in range(3) for x in range(3))


def main():
    name, side, features, sigma, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), sys.argv[5]
    random = np.random.default_rng(1)
    clip = np.fromfile(name, np.uint8).reshape(-1, side, side, 3)[:5] / 255
    clip = clip + sigma / 255 * random.standard_normal(clip.shape)
    first = np.maximum(layer(clip, random.standard_normal((3, 3, 3, features)) / 5), 0)
    layer(first, random.standard_normal((3, 3, features, features)) / (3 * features ** 0.5)).astype(np.float32).tofile(out)


main()
