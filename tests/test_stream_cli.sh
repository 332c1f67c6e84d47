#!/usr/bin/env bash
# test_stream_cli.sh BUILD SOURCE: memory of noise, flow, align and eval does not grow with the clip, and a long clip begins as a short one does;
# what fails in the middle leaves nothing.
. "$2/tests/cli.sh"
command -v python3 >/dev/null || skip "no Python to measure with"
if nm -D "$snls" 2>/dev/null | grep -Eq '__[at]san_init'; then slack=100000000; else slack=1536; fi # a sanitizer keeps freed memory
"$snls" synth long.npy --frames 330 --height 24 --width 40 --out-fflow true.npy >/dev/null && "$snls" denoise long.npy short.npy --sigma 0 --frames 30 >/dev/null 2>&1 || bad "no clips" # of 0.3 and 3.6 MiB

compare() # COMMAND ENDING-OF-IN WORDS...: of both clips, @ is their name, in the ending too; ENDING -: y4m on standard input
{
    python3 - "$snls" $slack "$@" <<'PY' || bad "$*"
import os, resource, subprocess, sys
snls, slack, command, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
def peak(name): # in a child of its own: the most that any child had is what the system tells
    read, write = os.pipe()
    if os.fork() == 0:
        source = open(name + ".y4m") if kind == "-" else subprocess.DEVNULL
        words = [snls, command] + [w.replace("@", name) for w in ["-" if kind == "-" else kind if "@" in kind else name + kind] + sys.argv[5:]] + ["--threads", "2"]
        code = subprocess.run(words, stdin=source, stdout=subprocess.DEVNULL).returncode
        os.write(write, b"%d %d" % (code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
        os._exit(0)
    os.wait()
    return [int(x) for x in os.read(read, 99).split()]
(bad1, short), (bad2, long) = peak("short"), peak("long")
if bad1 or bad2 or long - short >= slack: sys.exit("exit codes %d and %d, %d KiB and %d KiB" % (bad1, bad2, short, long))
for word in sys.argv[5:]:
    if not word.endswith("@.npy") or not os.path.exists(word.replace("@", "long")): continue
    a, b = (open(word.replace("@", name), "rb").read()[128:] for name in ("short", "long"))
    frame = len(a) // 30 # the last frame of the short clip has no next one
    if a[:-frame] != b[:len(a) - frame]: sys.exit(word + ": other frames")
PY
    rm -f ./[nfbea]_*.npy
}
compare noise .npy n_@.npy --sigma 20
compare flow .npy f_@.npy --method dis --out-backward b_@.npy --out-error e_@.npy --truth true.npy
compare align .npy a_@.npy --flow true.npy --ws 1 --ps 1
compare eval --data=@.npy --sigma 20 --method nlm --preset fast --radius 0 --flow none --patches1 1 --window1 1
if [ -e "$1/libsnls_ffmpeg.so" ]; then # of standard input nobody knows the length before its end
    for clip in short long; do "$snls" denoise $clip.npy $clip.y4m --sigma 0 >/dev/null 2>&1 || bad "$clip.y4m"; done
    compare noise - n_@.npy --sigma 20
    # cut off in the middle: nothing remains, and what was there stays
    head -c 50000 short.y4m >cut.y4m; mkdir pictures; echo old >kept.npy; echo old >pictures/00001.png; ls >before
    for command in "noise cut.y4m kept.npy --sigma 5" "noise cut.y4m new.npy --sigma 5" "noise cut.y4m pictures --sigma 5" "flow cut.y4m kept.npy --method dis" "flow cut.y4m x%d.flo --method dis" "align cut.y4m new.mkv --flow none --ws 1"; do
        "$snls" $command -y >/dev/null 2>err; code=$?; [ $code = 3 ] && [ "$(ls | grep -v '^err$')" = "$(cat before)" ] && [ "$(ls pictures)" = 00001.png ] && [ "$(cat kept.npy pictures/00001.png | tr '\n' ' ')" = "old old " ] || bad "$command: $code $(cat err) $(ls . pictures | tr '\n' ' ')"
    done
    # a picture in the way is found before the first frame is written
    has png && { "$snls" noise short.npy pictures --sigma 5 2>err; [ $? = 7 ] && grep -q 'pictures/00001.png: exists' err && [ "$(ls pictures)" = 00001.png ] || bad "a picture in the way: $(cat err)"; }
fi
# into a pipe whose length nobody knows: at the end, from memory
mkfifo pipe.npy; cat pipe.npy >piped.npy & "$snls" noise short.npy pipe.npy --sigma 5 || bad "a pipe"; wait; "$snls" noise short.npy plain.npy --sigma 5; cmp piped.npy plain.npy || bad "another array in a pipe"
if [ -e short.y4m ]; then
    cat pipe.npy >piped.npy & "$snls" noise - pipe.npy --sigma 5 <short.y4m || bad "from y4m into a pipe"; wait; "$snls" noise short.y4m plain.npy -y --sigma 5; cmp piped.npy plain.npy || bad "another array of y4m in a pipe"
fi
[ $failed = 0 ] && echo "test_stream_cli: ok"
exit $((failed > 0))
