#!/usr/bin/env python3
"""flow_stills.py SNLS DATA: dense inverse search beside OpenCV's on motion that is known: stills of DATA (shared/data/test) moved, made
brighter, disturbed. Mean end-point error in pixels where the target is in view. Needs Debian's python3-opencv and python3-scipy, and ffmpeg."""
import os, subprocess, sys, tempfile
import cv2, numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates

snls, data = sys.argv[1:3]
work = tempfile.mkdtemp()
H, W = 240, 320
rows, columns = np.mgrid[:H, :W].astype("f8")


def still(name):
    path = os.path.join(data, name, "00000.jpg")
    if name.endswith(".mkv"):
        path = os.path.join(work, "still.png")
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-i", os.path.join(data, name), "-frames:v", "1", path], check=True, stdin=subprocess.DEVNULL)
    return cv2.imread(path)[..., ::-1]


def crops(image, h, w, dx, dy):
    y, x = (image.shape[0] - h - dy) // 2, (image.shape[1] - w - dx) // 2
    return image[y + dy:y + dy + h, x + dx:x + dx + w], image[y:y + h, x:x + w], np.broadcast_to(np.float32([dx, dy]), (h, w, 2))


def sample(image, x, y):
    return np.stack([map_coordinates(image[..., c], [y + 120, x + 270], order=3, mode="mirror") for c in range(3)], -1)


def moved(image, matrix, dx, dy):
    """Frame 1 shows what frame 0 shows at p, at matrix (p - centre) + centre + (dx, dy)."""
    m, back, x, y = np.array(matrix), np.linalg.inv(matrix), columns - W / 2, rows - H / 2
    to = sample(image, back[0, 0] * (x - dx) + back[0, 1] * (y - dy) + W / 2, back[1, 0] * (x - dx) + back[1, 1] * (y - dy) + H / 2)
    return sample(image, columns, rows), to, np.stack([m[0, 0] * x + m[0, 1] * y + dx - x, m[1, 0] * x + m[1, 1] * y + dy - y], -1)


def cases():
    stills = [still(n) for n in ("davis_tennis", "davis_blackswan", "davis_bmx-trees", "set8_hypersmooth.mkv", "set8_motorbike.mkv")]
    for h, w, motions in ((H, W, [(3, 2), (24, 12), (32, 16), (40, 20)]), (400, 640, [(60, 30), (80, 20)])):
        for dx, dy in motions:
            yield "%dx%d by (%d, %d)" % (w, h, dx, dy), [crops(s, h, w, dx, dy) for s in stills]
    parts, rest = [s[60:300, 60:380].astype("f4") for s in stills], np.zeros((H, W, 2))
    yield "no motion, 20 brighter", [(s, s + 20, rest) for s in parts]
    yield "no motion, 0.8 times as bright", [(s, s * 0.8, rest) for s in parts]
    smooth = np.stack([gaussian_filter(stills[0][..., c].astype("f8"), 0.7) for c in range(3)], -1)
    near, far, c, s = moved(smooth, np.eye(2), 3.7, -1.3), moved(smooth, np.eye(2), 12, 5), np.cos(np.deg2rad(4)), np.sin(np.deg2rad(4))
    yield "(3.7, -1.3), 20 brighter", [(near[0], near[1] + 20, near[2])]
    yield "rotation by 4 degrees", [moved(smooth, [[c, -s], [s, c]], 0, 0)]
    yield "1.06 times as large", [moved(smooth, np.eye(2) * 1.06, 0, 0)]
    over, square = [a.copy() for a in near], sample(smooth, columns + 150, rows + 60)[80:150, 120:200]
    over[0][80:150, 120:200], over[1][84:154, 114:194], over[2][80:150, 120:200] = square, square, (-6, 4)
    yield "a square over the background", [over]
    rng = np.random.default_rng(0)
    for name, pair, sigma in (("(3.7, -1.3), noise of sigma 10", near, 10), ("the same, sigma 30", near, 30), ("the same, sigma 50", near, 50), ("(12, 5), sigma 30", far, 30)):
        yield name, [(pair[0] + sigma * rng.normal(size=near[0].shape), pair[1] + sigma * rng.normal(size=near[0].shape), pair[2])]


def ours(options):
    def flow(a, b):
        np.save(work + "/in.npy", np.stack([a, b]).astype("f4"))
        subprocess.run([snls, "flow", work + "/in.npy", work + "/out.npy", "-y", "--method", "dis", *options], check=True, capture_output=True)
        return np.load(work + "/out.npy")[0]
    return flow


def theirs(preset):
    def flow(*frames):
        return cv2.DISOpticalFlow_create(preset).calc(*[cv2.cvtColor(np.clip(np.round(f), 0, 255).astype("u1"), cv2.COLOR_RGB2GRAY) for f in frames], None)
    return flow


def error(flow, a, b, truth):
    y, x = np.mgrid[:truth.shape[0], :truth.shape[1]]
    inside = np.ones(x.shape, bool)
    for v, length in ((x, x.shape[1]), (y, x.shape[0]), (x + truth[..., 0], x.shape[1]), (y + truth[..., 1], x.shape[0])):
        inside &= (v >= 4) & (v <= length - 5)
    return np.hypot(*np.moveaxis(flow(a, b) - truth, -1, 0))[inside].mean()


print("| | dis | dis, finest 0 | OpenCV DIS fast | medium |\n|---|---|---|---|---|")
for name, pairs in cases():
    print("| %s | %s |" % (name, " | ".join("%.3f" % np.mean([error(f, *p) for p in pairs]) for f in (ours([]), ours(["--finest", "0"]), theirs(1), theirs(2)))), flush=True)
