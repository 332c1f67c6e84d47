#!/usr/bin/env python3
"""bench_flow.py SNLS FOLDER...: optical flow of snls beside OpenCV's on folders of images, in one run: milliseconds a pair on two
threads (smallest of three), and PSNR of frame t+1 moved onto frame t, with flow from the clean frames and from frames with
noise of sigma 15 (rounded to bytes). Prints a Markdown table. Needs Debian's python3-opencv."""
import glob, json, os, subprocess, sys, tempfile, time
import cv2, numpy as np

cv2.setNumThreads(2)
snls, folders = sys.argv[1], sys.argv[2:]
quick = os.environ.get("QUICK")  # fewer pairs

OURS = [("snls farneback", ["--method", "farneback"]),
        ("snls farneback, winsize 5", "--method farneback --levels 5 --winsize 5 --iterations 10 --poly-sigma 1.2".split()),
        ("snls dis", ["--method", "dis"]), ("snls dis, finest 0", "--method dis --finest 0".split()),
        ("snls tvl1", ["--method", "tvl1"]), ("snls tvl1, finest 1", "--method tvl1 --finest 1".split())]
THEIRS = [("OpenCV Farneback", lambda a, b: cv2.calcOpticalFlowFarneback(a, b, None, .5, 3, 15, 3, 5, 1.1, 0)),
          ("OpenCV Farneback, winsize 5", lambda a, b: cv2.calcOpticalFlowFarneback(a, b, None, .5, 5, 5, 10, 5, 1.2, 0)),
          ("OpenCV DIS ultrafast", lambda a, b: cv2.DISOpticalFlow_create(0).calc(a, b, None)),
          ("OpenCV DIS fast", lambda a, b: cv2.DISOpticalFlow_create(1).calc(a, b, None)),
          ("OpenCV DIS medium", lambda a, b: cv2.DISOpticalFlow_create(2).calc(a, b, None))]


def psnr(flow, a, b):
    h, w = flow.shape[:2]
    x, y = np.meshgrid(np.arange(w, dtype="f4"), np.arange(h, dtype="f4"))
    moved = cv2.remap(b.astype("f4"), x + flow[..., 0], y + flow[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return 10 * np.log10(255 ** 2 / ((moved - a) ** 2).mean())


def run_ours(grey, options):
    with tempfile.TemporaryDirectory() as work:
        np.save(work + "/in.npy", grey[..., None])
        said = subprocess.run([snls, "flow", work + "/in.npy", work + "/out.npy", "--threads", "2", "--json", *options],
                              check=True, capture_output=True, env={**os.environ, "OMP_WAIT_POLICY": "active"}).stdout
        return np.load(work + "/out.npy")[:-1], json.loads(said)["seconds_per_pair"]


def run_theirs(grey, method):
    start = time.perf_counter()
    flows = [method(a, b) for a, b in zip(grey, grey[1:])]
    return flows, (time.perf_counter() - start) / len(flows)


rows = {}
for folder in folders:
    names = sorted(glob.glob(folder + "/*.png") + glob.glob(folder + "/*.jpg"))[: 3 if quick else 10]
    clean = [cv2.imread(n) for n in names]
    rng = np.random.default_rng(123)
    noisy = [np.rint(f + rng.normal(0, 15, f.shape)).clip(0, 255).astype("u1") for f in clean]
    grey = [np.stack([cv2.cvtColor(f, cv2.COLOR_BGR2GRAY) for f in v]) for v in (clean, noisy)]
    for name, how in OURS + THEIRS:
        run = run_ours if isinstance(how, list) else run_theirs
        results = [run(g, how) for g in grey]
        seconds = min([r[1] for r in results] + [run(grey[0], how)[1]])
        quality = [np.mean([psnr(f, a, b) for f, a, b in zip(r[0], clean, clean[1:])]) for r in results]
        rows.setdefault(name, []).append([1e3 * seconds, *quality])
base = np.mean([r[0] for r in rows["OpenCV Farneback"]])
print("| method | ms a pair | beside OpenCV's Farneback | PSNR, clean | PSNR, sigma 15 |\n|---|---|---|---|---|")
for name, values in rows.items():
    ms, clean_db, noisy_db = np.mean(values, axis=0)
    print("| %s | %.1f | %.2f | %.2f | %.2f |" % (name, ms, ms / base, clean_db, noisy_db))
