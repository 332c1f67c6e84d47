#!/usr/bin/env bash
# test_report.sh BUILD SOURCE: the page of snls denoise --report in headless Chromium: the slider is moved, and left of it the picture
# is the noisy frame, right of it the denoised one; nothing is loaded from elsewhere.
# ctest: timeout=180
. "$2/tests/cli.sh"
has lapack && has png || skip "this build has no LAPACK or no PNG"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -z "${SNLS_PYTHON:-}" ]; then
    skip "NumPy is missing"
fi

"$snls" synth clean.npy --frames 4 --height 48 --width 64 >/dev/null && "$snls" noise clean.npy noisy.npy --sigma 30 >/dev/null || bad "no clip"
"$snls" denoise noisy.npy out.npy --sigma 30 --preset fast --radius 1 --clean clean.npy --report r.html --json >said 2>err || bad "denoise: $(cat err)"
[ ! -e r.html.part ] && [ ! -e r.html.part.png ] || bad "parts are left"
grep -qE '(src|href|url\()[ ="(]*(https?:)?//' r.html && bad "something is loaded from elsewhere"
for words in 'PSNR of each frame' 'SSIM of each frame' 'sigma' 'version' 'type=range'; do grep -q "$words" r.html || bad "no '$words' in the page"; done
[ "$(grep -o '{n:[0-9]*,' r.html | wc -l)" = 4 ] || bad "not four frames"

bytes=$(printf 'na\377me <\303\244> \303.npy'); cp noisy.npy "$bytes" # a name that is no UTF-8
"$snls" denoise "$bytes" out.npy -y --sigma 30 --preset fast --radius 1 --report bytes.html >said 2>err || bad "a name that is no UTF-8: $(cat err)"
"$SNLS_PYTHON" -c 'text = open("bytes.html", encoding="utf-8").read(); assert text.count("na?me &lt;") == 3, text[:400]' || bad "the page of a name that is no UTF-8"

if [ -z "$browser" ]; then
    [ $failed = 0 ] && echo "skipped in part: no Chromium, the page was only read" && exit 77
    exit 1
fi
# The page with a hand in it: moves the slider as a user would, makes the picture four times as large, and says what it sees.
sed 's#</body></html>#<style>body{margin:0;padding:0;max-width:none}h1,h2,table,svg,\#views,\#frames,label,.tag{display:none!important}.view,.view img{width:256px;height:192px}</style><script>addEventListener("load",()=>{const s=document.querySelector("\#slider");s.value=25;s.dispatchEvent(new Event("input",{bubbles:true}));document.body.dataset.clip=document.querySelector("\#top").style.clipPath;document.body.dataset.frames=document.querySelectorAll("\#frames button").length})</script></body></html>#' r.html >hand.html
chrome() { timeout 90 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --force-device-scale-factor=1 --user-data-dir="$work/profile" "$@" "file://$work/hand.html" 2>log; }
chrome --dump-dom --virtual-time-budget=3000 >dom || bad "Chromium fails: $(tail -3 log)"
grep -q 'data-clip="inset(0[^"]* 25%)"' dom || bad "the slider does nothing: $(grep -o '<body[^>]*>' dom)"
grep -q 'data-frames="4"' dom || bad "not four buttons: $(grep -o '<body[^>]*>' dom)"
chrome --window-size=256,192 --screenshot="$work/shot.png" --virtual-time-budget=3000 >/dev/null || bad "no screenshot: $(tail -3 log)"
"$snls" denoise shot.png shot.npy --sigma 0 >/dev/null 2>err || bad "the screenshot cannot be read: $(cat err)"
"$SNLS_PYTHON" - <<'P' || bad "the screenshot shows something else"
import numpy as np
shot = np.load("shot.npy")[0]
noisy, out = (np.load(n)[0].clip(0, 255).round() for n in ("noisy.npy", "out.npy"))
shot = shot[:192, :256].reshape(48, 4, 64, 4, 3).mean((1, 3))
left, right = slice(1, 15), slice(18, 63) # of 64 columns; the bar is at 16
def far(a, b, s): return abs(a[:, s] - b[:, s]).mean()
print("left: %.1f from noisy, %.1f from denoised; right: %.1f, %.1f" % (far(shot, noisy, left), far(shot, out, left), far(shot, noisy, right), far(shot, out, right)))
assert far(shot, noisy, left) < 3 < far(shot, out, left) and far(shot, out, right) < 3 < far(shot, noisy, right)
P
[ $failed = 0 ] && echo "test_report: ok"
exit $((failed > 0))
