#!/usr/bin/env python3
"""drawn_clips.py: clips of drawings and writing, which cameras do not make, for `snls train`.

    python3 tools/drawn_clips.py FOLDER COUNT [--over CLIPS] [--seed N]

Writes COUNT clips of 24 frames of 256x256 as FOLDER/drawn-000.npy and so on ((T,H,W,3), u8): grounds of one colour, ramps, stripes, checks or
cells, with rectangles, ellipses, polygons, lines and writing on them in saturated and plain colours, with hard edges or smooth ones, at rest, moving, or
switched on. --over: every third clip has them over real footage instead, as titles and subtitles are, taken from the .npy clips of that folder
((T,H,W,3), u8; what is smaller than 256x256 stays so). The same seed and the same footage make the same clips. Needs NumPy and OpenCV (python3-opencv).
"""
import argparse
import glob
import os

import cv2
import numpy as np

FRAMES, SIDE = 24, 256
SHIFT = 4  # OpenCV's coordinates in sixteenths of a pixel
WORDS = ("THE END", "Chapter 1", "0123456789", "camera 2", "Directed by", "+12.5 %", "snls", "Sample text", "00:17:42", "no signal", "Exit", "Level 3", "@#&!?", "quiz", "LIVE")


def colour(rng):
    """Corners of the cube of colours, greys, or any."""
    kind = rng.integers(4)
    if kind < 2:
        return rng.integers(0, 2, 3) * 255
    return np.full(3, rng.integers(0, 256)) if kind == 2 else rng.integers(0, 256, 3)


def as_tuple(c):
    return tuple(int(x) for x in c)


def point(p):
    return tuple(int(round(x * (1 << SHIFT))) for x in p)


# ---- grounds: functions of x and y, which a pan moves ----

def ground(rng):
    a, b = colour(rng), colour(rng)
    kind, period, angle = rng.integers(6), rng.uniform(2, 24), rng.uniform(0, np.pi)
    cells = rng.integers(0, 2, (128, 128, 1)) if rng.integers(2) else rng.integers(0, 256, (128, 128, 3)) / 255
    size = rng.integers(1, 9)

    def draw(x, y):
        along = np.cos(angle) * x + np.sin(angle) * y
        if kind == 0:
            share = np.zeros_like(x)
        elif kind == 1:
            share = np.clip(along / SIDE, 0, 1)
        elif kind == 2:
            share = np.floor(along / period) % 2
        elif kind == 3:
            share = (np.floor(x / period) + np.floor(y / period)) % 2
        elif kind == 4:
            share = 0.5 + 0.5 * np.sin(along * 2 * np.pi / period)
        else:
            return a + (b - a) * cells[np.floor(y / size).astype(int) % 128, np.floor(x / size).astype(int) % 128]
        return a + (b - a) * share[..., None]

    speed = rng.uniform(-3, 3, 2) * (rng.random() < 0.4)
    y, x = np.mgrid[0:SIDE, 0:SIDE].astype(np.float64)
    return lambda t: draw(x - speed[0] * t, y - speed[1] * t).clip(0, 255).astype(np.uint8)


def footage(rng, clips):
    clip = np.load(clips[rng.integers(len(clips))], mmap_mode="r")
    top, left = (rng.integers(side - min(SIDE, side) + 1) for side in clip.shape[1:3])
    return lambda t: np.array(clip[t % len(clip), top:top + SIDE, left:left + SIDE])


# ---- what lies on them ----

def outline(rng):
    """Corners of a polygon about the origin."""
    n, radius = rng.integers(3, 9), rng.uniform(4, 70)
    turns = np.sort(rng.uniform(0, 2 * np.pi, n))
    return np.stack([np.cos(turns), np.sin(turns)], 1) * radius * rng.uniform(0.5, 1, (n, 1))


def thing(rng):
    kind, c, line = rng.integers(5), as_tuple(colour(rng)), int(rng.choice([cv2.LINE_8, cv2.LINE_AA]))
    thick = int(rng.choice([-1, -1, 1, 2, 4]))
    corners, size = outline(rng), rng.uniform(2, 60, 2)
    word, font, scale = str(rng.choice(WORDS)), int(rng.integers(0, 8)), rng.uniform(0.3, 2)
    box = as_tuple(colour(rng)) if rng.random() < 0.4 else None
    start, speed = rng.uniform(0, SIDE, 2), rng.uniform(-4, 4, 2) * (rng.random() < 0.6)
    spin, on = rng.uniform(-0.1, 0.1) * (rng.random() < 0.3), rng.integers(0, FRAMES) if rng.random() < 0.2 else 0

    def write(picture, at):
        at, bold = (int(at[0]) - 60, int(at[1])), max(1, thick)
        (w, h), below = cv2.getTextSize(word, font, scale, bold)
        if box is not None:
            cv2.rectangle(picture, (at[0] - 4, at[1] - h - 4), (at[0] + w + 4, at[1] + below + 4), box, -1)
        cv2.putText(picture, word, at, font, scale, c, bold, line)

    def draw(picture, t):
        at, turn = start + speed * t, spin * t
        if t < on:
            return
        if kind == 0:
            cv2.rectangle(picture, point(at - size), point(at + size), c, thick, line, SHIFT)
        elif kind == 1:
            cv2.ellipse(picture, point(at), point(size), np.degrees(turn), 0, 360, c, thick, line, SHIFT)
        elif kind == 2:
            rotated = corners @ np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]]) + at
            cv2.fillPoly(picture, [np.array([point(p) for p in rotated], np.int32)], c, line, SHIFT)
        elif kind == 3:
            cv2.line(picture, point(at), point(at + 3 * corners[0]), c, max(1, thick), line, SHIFT)
        else:
            write(picture, at)

    return draw


def clip(rng, clips):
    below = footage(rng, clips) if clips else ground(rng)
    things = [thing(rng) for _ in range(rng.integers(1, 5) if clips else rng.integers(2, 25))]
    frames = []
    for t in range(FRAMES):
        picture = np.ascontiguousarray(below(t))
        for draw in things:
            draw(picture, t)
        frames.append(picture)
    return np.stack(frames)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("count", type=int)
    parser.add_argument("--over", default="", metavar="CLIPS")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    clips = sorted(p for p in glob.glob(os.path.join(args.over, "*.npy")) if not os.path.basename(p).startswith("drawn-")) if args.over else []
    if args.over and not clips:
        parser.error(f"{args.over} holds no .npy")
    os.makedirs(args.folder, exist_ok=True)
    for i in range(args.count):
        rng = np.random.default_rng([args.seed, i])
        np.save(os.path.join(args.folder, f"drawn-{i:03d}.npy"), clip(rng, clips if i % 3 == 2 else []))


if __name__ == "__main__":
    main()
