#!/usr/bin/env bash
# test_metrics_cli.sh BUILD SOURCE: snls metrics against definitions written anew in NumPy, and against scikit-image and ffmpeg where they are installed.
. "$2/tests/cli.sh"
if [ -z "${SNLS_PYTHON:-}" ]; then
    skip "NumPy is missing"
fi
taps=$2/src/metrics/strred_taps.h
cat > compare.py <<'P'
import json, re, shutil, subprocess, sys
import numpy as np

snls, taps_file = sys.argv[1:3]
failed = 0


def check(good, *what):
    global failed
    if not good:
        failed += 1
        print("FAIL", *what)


text = open(taps_file).read()
KERNELS = []
for name in ("low_first", "low", "band_taps"):
    body = re.search(r"double %s\[.*?\{(.*?)\};" % name, text, re.S).group(1)
    values = np.array([float(x) for x in re.findall(r"[-\d.]+", body)])
    side = int(round(len(values) ** 0.5))
    KERNELS.append(values.reshape(side, side))


def correlate(image, kernel):
    r = kernel.shape[0] // 2
    p = np.pad(image, r, mode="reflect")
    return sum(kernel[i, j] * p[i:i + image.shape[0], j:j + image.shape[1]] for i in range(2 * r + 1) for j in range(2 * r + 1))


def band(frame):
    weights = np.array([0.2125, 0.7154, 0.0721]) if frame.shape[-1] == 3 else np.ones(1)
    y = correlate(frame @ weights / 255, KERNELS[0])
    for _ in range(3):
        y = correlate(y, KERNELS[1])[::2, ::2]
    return correlate(y, KERNELS[2])


def blocks_of(y):
    h, w = y.shape[0] // 3 * 3, y.shape[1] // 3 * 3
    y = y[:h, :w]
    every = np.stack([y[i:h - 2 + i, j:w - 2 + j].ravel() for j in range(3) for i in range(3)])
    k = np.cov(every, bias=True)
    values, vectors = np.linalg.eigh(k)
    values = values.clip(0)
    b = np.stack([y[i::3, j::3].ravel() for j in range(3) for i in range(3)])
    if values.max() <= 0:
        ss = np.zeros(b.shape[1])
    else:
        ss = (b * np.linalg.solve(vectors @ np.diag(values) @ vectors.T, b)).sum(0) / 9
    ent = sum(np.log2(ss * v + 0.1) + np.log(2 * np.pi * np.e) for v in values if v > 0)
    return ent, ss


def strred(clean, test):
    s, t, sr, tr = [], [], [], []
    for p in range(len(clean) // 2):
        spatial, temporal = [], []
        for v in (clean, test):
            a, b = band(v[2 * p]), band(v[2 * p + 1])
            (e1, s1), (e2, s2) = blocks_of(a), blocks_of(a - b)
            spatial.append(e1 * np.log2(1 + s1))
            temporal.append(e2 * np.log2(1 + s1) * np.log2(1 + s2))
        s.append(abs(spatial[0] - spatial[1]).mean())
        t.append(abs(temporal[0] - temporal[1]).mean())
        sr.append(abs((spatial[0] - spatial[1]).mean()))
        tr.append(abs((temporal[0] - temporal[1]).mean()))
    return np.mean(s) * np.mean(t), np.mean(sr) * np.mean(tr)


def ssim(a, b):
    def mean7(x):
        c = np.cumsum(np.cumsum(np.pad(x, ((1, 0), (1, 0))), 0), 1)
        return (c[7:, 7:] - c[:-7, 7:] - c[7:, :-7] + c[:-7, :-7]) / 49
    out = []
    for c in range(a.shape[-1]):
        x, y = a[..., c] / 255, b[..., c] / 255
        ux, uy = mean7(x), mean7(y)
        vx, vy, vxy = [49 / 48 * (m - n) for m, n in ((mean7(x * x), ux * ux), (mean7(y * y), uy * uy), (mean7(x * y), ux * uy))]
        out.append(((2 * ux * uy + 1e-4) * (2 * vxy + 9e-4) / ((ux ** 2 + uy ** 2 + 1e-4) * (vx + vy + 9e-4))).mean())
    return np.mean(out)


def close(got, want, tolerance=1e-6):
    return abs(got - want) <= tolerance * (1 + abs(want))


try:
    from skimage.metrics import peak_signal_noise_ratio, structural_similarity
except ImportError:
    structural_similarity = None
    print("no scikit-image: compared with NumPy alone")

rng = np.random.default_rng(1)
for shape in ((5, 96, 130, 3), (2, 75, 64, 1), (4, 200, 201, 3)):
    t, h, w, c = shape
    y, x = np.mgrid[:h, :w]
    clean = np.stack([128 + 60 * np.sin((x + 2 * i) / 7) * np.cos(y / 9 + i) + rng.normal(0, 12, (h, w)) for i in range(t)])[..., None]
    clean = (clean + 10 * np.arange(c)).clip(0, 255).astype("f4")
    test = (clean + rng.normal(0, 15, shape)).astype("f4")
    np.save("clean.npy", clean)
    np.save("test.npy", test)
    for clamp in (True, False):
        said = json.loads(subprocess.run([snls, "metrics", "clean.npy", "test.npy", "--json", *([] if clamp else ["--no-clamp"])], check=True, stdout=subprocess.PIPE).stdout)
        a, b = clean.astype("f8"), (test.clip(0, 255) if clamp else test).astype("f8")
        for i in range(t):
            check(close(said["psnr"]["frames"][i], 10 * np.log10(255 ** 2 / ((a[i] - b[i]) ** 2).mean())), "psnr", shape, i)
            check(close(said["ssim"]["frames"][i], ssim(a[i], b[i])), "ssim", shape, i, said["ssim"]["frames"][i], ssim(a[i], b[i]))
            if structural_similarity:
                want = np.mean([structural_similarity(a[i, ..., k] / 255, b[i, ..., k] / 255, data_range=1) for k in range(c)])
                check(close(said["ssim"]["frames"][i], want), "scikit-image's ssim", shape, i, said["ssim"]["frames"][i], want)
                check(close(said["psnr"]["frames"][i], peak_signal_noise_ratio(a[i], b[i], data_range=255)), "scikit-image's psnr", shape, i)
        check(close(said["psnr"]["mean"], np.mean(said["psnr"]["frames"])) and close(said["ssim"]["mean"], np.mean(said["ssim"]["frames"])), "means", shape)
        if said["strred"]:
            want = strred(a, b)
            check(close(said["strred"]["score"], want[0], 1e-5) and close(said["strred"]["reduced"], want[1], 1e-5), "strred", shape, said["strred"], want)
            check(len(said["strred"]["pairs"]) == t // 2, "pairs", shape)
        else:
            print("no ST-RRED in this build")


def ffmpeg_psnr(a, b):
    """PSNR of each frame of two u8 clips by ffmpeg's filter, over all channels; to two digits, as it writes them. (Its ssim has windows of another kind.)"""
    for name, clip in (("a.rgb", a), ("b.rgb", b)):
        clip.tofile(name)
    raw = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "%dx%d" % (a.shape[2], a.shape[1])]
    graph = "[0]format=gbrp[a];[1]format=gbrp[b];[a][b]psnr=stats_file=psnr.log"
    subprocess.run(["ffmpeg", "-v", "error", "-y", *raw, "-i", "a.rgb", *raw, "-i", "b.rgb", "-lavfi", graph, "-f", "null", "-"], check=True, stdin=subprocess.DEVNULL)
    with open("psnr.log") as log:
        return [float(line.split("psnr_avg:")[1].split()[0]) for line in log if "psnr_avg:" in line]


if shutil.which("ffmpeg"):
    whole = [clip.clip(0, 255).round().astype("u1") for clip in (clean, test)]
    np.save("a.npy", whole[0])
    np.save("b.npy", whole[1])
    said = json.loads(subprocess.run([snls, "metrics", "a.npy", "b.npy", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    theirs = ffmpeg_psnr(*whole)
    check(len(theirs) == len(clean), "frames that ffmpeg saw", theirs)
    for ours, want in zip(said["psnr"]["frames"], theirs):
        check(abs(ours - want) < 0.006, "ffmpeg's psnr", ours, want)
else:
    print("no ffmpeg: PSNR compared with NumPy alone")
same = json.loads(subprocess.run([snls, "metrics", "clean.npy", "clean.npy", "--json"], check=True, stdout=subprocess.PIPE).stdout)
check(same["psnr"]["mean"] is None and close(same["ssim"]["mean"], 1), "a clip against itself", same)
np.save("small.npy", clean[:, :5])
np.save("less.npy", clean[:, :5] + 1)
said = json.loads(subprocess.run([snls, "metrics", "small.npy", "less.npy", "--no-clamp", "--json"], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout)
check(close(said["psnr"]["mean"], 20 * np.log10(255)) and said["ssim"]["mean"] is None and said["strred"] is None, "frames too small for SSIM", said)
for files, code in ((("clean.npy", "small.npy"), 3), (("clean.npy", "none.npy"), 3), (("clean.npy",), 2)):
    check(subprocess.run([snls, "metrics", *files], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == code, "exit code of", files)

# frames as they are decoded: a long clip takes no more memory than a short one, and gives the same numbers as an array
def y4m(name, frames, seed):
    rng = np.random.default_rng(seed)
    with open(name, "wb") as f:
        f.write(b"YUV4MPEG2 W96 H64 F25:1 Ip A1:1 C444\n")
        for _ in range(frames):
            f.write(b"FRAME\n" + rng.integers(16, 235, 3 * 64 * 96, dtype="u1").tobytes())
PEAK = """
import resource, subprocess, sys
out = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(out, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""
sanitized = subprocess.run("nm -D '%s' 2>/dev/null | grep -Eq '__[at]san_init'" % snls, shell=True).returncode == 0 # which keeps freed memory
peaks = []
for frames in (20, 500): # 70 MB of floats
    y4m("a.y4m", frames, 1), y4m("b.y4m", frames, 2)
    code, peak = map(int, subprocess.run([sys.executable, "-c", PEAK, snls, "metrics", "a.y4m", "b.y4m"], check=True, stdout=subprocess.PIPE).stdout.split())
    check(code == 0, "metrics of", frames, "frames")
    peaks.append(peak)
check(sanitized or peaks[1] < peaks[0] + 30, "MB of 20 and of 500 frames", peaks)
y4m("a.y4m", 7, 1), y4m("b.y4m", 7, 2) # an odd last frame has no other for ST-RRED
for name in "ab":
    subprocess.run([snls, "denoise", name + ".y4m", name + ".npy", "-y", "--sigma", "0"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
told = [json.loads(subprocess.run([snls, "metrics", *files, "--json"], check=True, stdout=subprocess.PIPE).stdout) for files in (("a.npy", "b.npy"), ("a.y4m", "b.y4m"), ("a.npy", "b.y4m"), ("a.y4m", "b.npy"))]
check(told[0]["frames"] == 7 and all(one == told[0] for one in told), "arrays and clips", told)
y4m("a.y4m", 500, 1)
with open("b.y4m", "rb+") as f:
    f.truncate(3 * 64 * 96 * 3)
cut = subprocess.run([snls, "metrics", "a.y4m", "b.y4m"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
check(cut.returncode == 3 and not cut.stdout, "a clip that is cut off", cut)
y4m("b.y4m", 7, 2)
gone = subprocess.run([snls, "metrics", "a.y4m", "b.y4m"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
check(gone.returncode == 3 and b"holds 7 frames, a.y4m holds 500" in gone.stderr and not gone.stdout, "clips of unlike length", gone)
print("test_metrics:", "ok" if not failed else "%d failed" % failed)
sys.exit(failed > 0)
P
"$SNLS_PYTHON" compare.py "$snls" "$taps"
