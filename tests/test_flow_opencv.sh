#!/usr/bin/env bash
# test_flow_opencv.sh BUILD SOURCE: Farneback against OpenCV's own, on a clip that snls synth makes; the end-point error of TV-L1
# against that of OpenCV's, on a real pair where ../shared/data has it. Needs Debian's
# python3-opencv (apt-get install python3-opencv); is skipped without.
set -u
snls=$1/snls
if [ ! -x "$snls" ]; then
    echo "skipped: $snls was not built"
    exit 77
fi
python=
for candidate in ${SNLS_PYTHON:+"$SNLS_PYTHON"} python3 /usr/bin/python3; do
    if "$candidate" -c 'import cv2, numpy' 2>/dev/null; then python=$candidate; break; fi
done
if [ -z "$python" ]; then
    echo "skipped: no Python has OpenCV (Debian: apt-get install python3-opencv)"
    exit 77
fi
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
"$snls" synth clip.npy --frames 2 --height 160 --width 210 --disturb 0 > /dev/null || exit 1
cat > compare.py <<'P'
import subprocess, sys
import cv2, numpy as np
snls = sys.argv[1]
clip = np.load("clip.npy").reshape(2, 160, 210, 3)
frames = np.rint(clip @ np.array([0.299, 0.587, 0.114], "f4")).clip(0, 255).astype("u1")
np.save("grey.npy", frames[..., None])
settings = [  # pyr_scale, levels, winsize, iterations, poly_n, poly_sigma, gaussian
    (0.5, 3, 15, 3, 5, 1.1, 0), (0.5, 5, 5, 10, 5, 1.2, 0), (0.7, 4, 10, 2, 7, 1.5, 0), (0.5, 2, 21, 3, 5, 1.1, 1), (0.8, 0, 9, 1, 3, 0.8, 0)]
failed = 0
for s in settings:
    want = cv2.calcOpticalFlowFarneback(frames[0], frames[1], None, *s[:6], cv2.OPTFLOW_FARNEBACK_GAUSSIAN if s[6] else 0)
    names = ["pyr_scale", "levels", "winsize", "iterations", "poly_n", "poly_sigma"]
    options = [x for n, v in zip(names, s) for x in ("--" + n, str(v))]
    subprocess.run([snls, "flow", "grey.npy", "flow.npy", "-y", "--window", ["box", "gaussian"][s[6]], *options], check=True, stdout=subprocess.DEVNULL)
    error = np.sqrt(((np.load("flow.npy")[0] - want) ** 2).sum(-1))
    # OpenCV sums in double, we in float. Where the equations of a pixel are nearly singular that difference grows.
    good = error.mean() <= 1e-3 and np.quantile(error, 0.99) <= 1e-3 and error.max() <= 0.2
    print(s, "difference: mean %.6f, 99 %% %.6f, largest %.4f pixels" % (error.mean(), np.quantile(error, 0.99), error.max()), "" if good else "FAIL")
    failed += not good
pair = sys.argv[2] + "/../shared/data/flow/rubberwhale"
try:
    data = open(pair + ".flo", "rb").read()
    make = cv2.optflow.DualTVL1OpticalFlow_create
except (OSError, AttributeError):
    print("TV-L1 not compared: ../shared/data/flow or cv2.optflow is missing")
    sys.exit(failed > 0)
# OpenCV's TV-L1 at IPOL's parameters; it has no smoothing of the frames, so ours has none either
frames = np.stack([cv2.imread("%s_%d.png" % (pair, i), 0) for i in (0, 1)])
width, height = np.frombuffer(data[4:12], "<i4")
truth = np.frombuffer(data[12:], "<f4").reshape(height, width, 2)
known = (abs(truth) < 1e9).all(-1)
np.save("grey.npy", frames[..., None])
subprocess.run([snls, "flow", "grey.npy", "flow.npy", "-y", "--method", "tvl1", "--smoothing", "0"], check=True, stdout=subprocess.DEVNULL)
flows = np.load("flow.npy")[0], make(0.25, 0.15, 0.3, 5, 5, 0.01, 300, 1, 0.5, 0.0, 1, False).calc(frames[0], frames[1], None)
ours, theirs = [np.sqrt(((f - truth) ** 2).sum(-1))[known].mean() for f in flows]
good = ours <= 1.05 * theirs
print("TV-L1 on RubberWhale: end-point error %.4f, OpenCV's %.4f" % (ours, theirs), "" if good else "FAIL")
sys.exit(failed + (not good) > 0)
P
"$python" compare.py "$snls" "$2"
