#!/usr/bin/env bash
# test_cli.sh BUILD SOURCE: the command line from outside: exit codes, one sentence on stderr, nothing left behind, signals.
# ctest: timeout=300
. "$2/tests/cli.sh"
passed=0

bad() {
    failed=$((failed + 1))
    echo "FAIL $1"
    [ $# -gt 1 ] && echo "     said: $2"
    return 0
}
ok() { passed=$((passed + 1)); }

# npy NAME DESCR SHAPE BYTES: a version 1 file of zeros
npy() {
    local head="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
    local n=${#head}
    { printf '\223NUMPY\001\000'
      printf "\\$(printf %03o $((n % 256)))\\$(printf %03o $((n / 256)))"
      printf %s "$head"
      head -c "$4" /dev/zero; } > "$1"
}

# expect CODE WHAT COMMAND...: exit code; on failure exactly one line on stderr, nothing on stdout, no new file
expect() {
    local want=$1 what=$2 before after said lines code
    shift 2
    before=$(ls -A)
    "$@" > .stdout 2> .stderr
    code=$?
    after=$(ls -A | grep -v -e '^\.stdout$' -e '^\.stderr$')
    before=$(echo "$before" | grep -v -e '^\.stdout$' -e '^\.stderr$')
    said=$(head -3 .stderr)
    lines=$(wc -l < .stderr)
    if [ $code -ne "$want" ]; then bad "$what: exit $code, expected $want" "$said"; return 1; fi
    if [ "$want" -ne 0 ]; then
        if [ "$lines" -ne 1 ]; then bad "$what: $lines lines on stderr" "$said"; return 1; fi
        if [ -s .stdout ]; then bad "$what: something on stdout"; return 1; fi
        if [ "$before" != "$after" ]; then bad "$what: files came or went: $(comm -3 <(echo "$before") <(echo "$after") | tr '\n' ' ')"; return 1; fi
    fi
    ok
}

# names TEXT: the last sentence names it
names() { if grep -q -F -e "$1" .stderr; then ok; else bad "the sentence does not name $1" "$(cat .stderr)"; fi; }

expect 0 "help" "$snls" --help
expect 0 "version" "$snls" --version
expect 0 "info" "$snls" info
OMP_NUM_THREADS=99999 "$snls" info > .stdout 2> .stderr; grep -qE '^backend cpu .*[^0-9]([0-9]{1,3}|10[01][0-9]|102[0-4]) threads?$' .stdout && ok || bad "OMP_NUM_THREADS=99999: $(grep '^backend cpu' .stdout .stderr)"
expect 0 "info as JSON" "$snls" info --json
if [ "$(wc -l < .stdout)" -ge 1 ] && head -c 1 .stdout | grep -q '{'; then ok; else bad "info --json is no object"; fi
for command in search search-all refine compose weights gather gather-add scatter-add synth bench info; do
    expect 0 "$command --help" "$snls" $command --help
    if head -4 .stdout | grep -q Examples; then ok; else bad "$command --help does not begin with examples"; fi
done

# inputs
expect 0 "synth" "$snls" synth clip.npy --frames 3 --height 12 --width 14 --out-fflow f.npy --out-bflow b.npy
expect 0 "synth --disturb" "$snls" synth disturbed.npy --frames 3 --height 12 --width 14 --disturb 3 --out-fflow fd.npy --out-bflow bd.npy
numbers() { od -An -v -w8 -t f4 -j 128 "$1"; } # of a .npy file whose header is short, two a line
for flow in f b; do # every frame's 12*14 errors
    if paste <(numbers $flow.npy) <(numbers ${flow}d.npy) | awk '{ s += ($3 - $1) ^ 2 + ($4 - $2) ^ 2 } NR % 168 == 0 { bad += (r = sqrt(s / 168)) < 2.9999 || r > 3.0001; s = 0; frames++ } END { exit bad || frames != 3 }'
    then ok; else bad "synth --disturb 3 is no root mean square of 3 (${flow}flow)"; fi
done
expect 0 "compose" "$snls" compose f.npy b.npy --wt 1 --out flow.npy
expect 0 "flow of a clip" "$snls" flow clip.npy of.npy --method dis --out-backward ob.npy
expect 0 "compose, what flow writes" "$snls" compose of.npy ob.npy --wt 1 --out oflow.npy
expect 0 "search around it" "$snls" search clip.npy clip.npy --flow oflow.npy --wt 1 --ws 3 --k 2 --out-dist od.npy
for backend in ref cpu; do
    expect 0 "search on $backend" "$snls" search clip.npy clip.npy --flow flow.npy --wt 1 --ws 3 --ps 2 --k 4 --backend $backend --out-dist d_$backend.npy --out-offset o_$backend.npy
    expect 0 "weights on $backend" "$snls" weights d_$backend.npy --scale 0.001 --backend $backend --out w_$backend.npy
    expect 0 "gather-add on $backend" "$snls" gather-add clip.npy w_$backend.npy o_$backend.npy --ps 2 --backend $backend --out y_$backend.npy
    expect 0 "gather on $backend" "$snls" gather clip.npy w_$backend.npy o_$backend.npy --ps 2 --backend $backend --out s_$backend.npy
    expect 0 "refine on $backend" "$snls" refine clip.npy clip.npy o_$backend.npy --wr 3 --k 2 --backend $backend --out-dist rd_$backend.npy --out-offset ro_$backend.npy
    expect 0 "gradients on $backend" "$snls" search clip.npy clip.npy --flow flow.npy --wt 1 --ws 3 --k 4 --backend $backend \
        --grad-dist d_$backend.npy --out-grad-q gq_$backend.npy --out-grad-k gk_$backend.npy --out-grad-flow gf_$backend.npy
done
if [ -s y_cpu.npy ] && ! ls ./*.part > /dev/null 2>&1; then ok; else bad "outputs are missing or a .part is left"; fi

# usage: 2
expect 2 "no command" "$snls"
expect 2 "unknown command" "$snls" serach
names serach
expect 2 "unknown option" "$snls" search clip.npy clip.npy --wsx 3 --out-dist x.npy
names --wsx
expect 2 "missing argument" "$snls" search clip.npy --out-dist x.npy
expect 2 "option without value" "$snls" search clip.npy clip.npy --out-dist x.npy --ws
expect 2 "k 0" "$snls" search clip.npy clip.npy --k 0 --out-dist x.npy
names k
for value in -1 0 x 1.5 99999999999 '' ' 3'; do expect 2 "ws '$value'" "$snls" search clip.npy clip.npy --ws "$value" --out-dist x.npy; done
expect 2 "unknown name" "$snls" search clip.npy clip.npy --dist cosine --out-dist x.npy
names cosine
expect 2 "anchor against exclude" "$snls" search clip.npy clip.npy --anchor self --exclude self --out-dist x.npy
npy zero.npy '<f4' '(1, 0, 8, 8, 3)' 0; npy zero6.npy '<f4' '(1, 1, 0, 8, 8, 2)' 0; npy zero7.npy '<f4' '(1, 1, 0, 8, 8, 2, 3)' 0; npy zero_flow.npy '<f4' '(1, 0, 8, 8, 2)' 0
expect 3 "query without frames" "$snls" search zero.npy zero.npy --out-dist x.npy; names "zero.npy: query has length 0 on axis 1"
expect 3 "refine without frames" "$snls" refine zero.npy zero.npy zero7.npy --out-dist x.npy; names "zero.npy: query has length 0"
expect 3 "gather-add without frames" "$snls" gather-add zero.npy zero6.npy zero7.npy --out x.npy; names "zero.npy: value has length 0"
expect 3 "compose without frames" "$snls" compose zero_flow.npy zero_flow.npy --out x.npy; names "zero_flow.npy: fflow has length 0"
expect 2 "too few frames" "$snls" search clip.npy clip.npy --wt 2 --out-dist x.npy
expect 2 "heads do not divide" "$snls" search clip.npy clip.npy --heads 2 --out-dist x.npy
expect 2 "nearest with half steps" "$snls" search clip.npy clip.npy --interp nearest --stride1 0.5 --out-dist x.npy
expect 2 "every candidate with an anchor" "$snls" search-all clip.npy clip.npy --anchor self --out-dist x.npy; names "--anchor is self"
expect 2 "every candidate, the best of each frame" "$snls" search-all clip.npy clip.npy --topk each --out-dist x.npy; names "--topk is each"
expect 4 "gradient of places with nearest" "$snls" refine clip.npy clip.npy o_cpu.npy --wr 1 --k 2 --interp nearest --grad-dist rd_cpu.npy --out-grad-offset x.npy
names "--interp is nearest"; names --out-grad-offset
expect 2 "unknown backend" "$snls" search clip.npy clip.npy --backend gpu --out-dist x.npy
expect 2 "unknown backend where nothing is computed" "$snls" info --backend gpu; names "--backend is gpu"
expect 2 "unknown device likewise" "$snls" options --device cuda:x; names "--device is cuda:x"
expect 2 "no output asked for" "$snls" search clip.npy clip.npy
expect 2 "output is an input" "$snls" search clip.npy clip.npy --out-dist clip.npy -y
expect 2 "one output twice" "$snls" search clip.npy clip.npy --out-dist x.npy --out-offset ./x.npy

# input: 3 and 4
npy big.npy '>f4' '(1, 1, 2, 2, 1)' 16
npy fortran.npy '<f4' '(1, 1, 2, 2, 1)' 16
sed -i 's/False/True /' fortran.npy
npy ints.npy '<i4' '(1, 1, 2, 2, 1)' 16
npy lies.npy '<f4' '(1, 1, 2, 2, 9)' 16
npy huge.npy '<f4' '(1, 1, 99999999999, 99999999999, 9)' 16
npy flat.npy '<f4' '(2, 2)' 16
npy other.npy '<f4' '(1, 3, 12, 14, 4)' 8064
head -c 40 clip.npy > cut.npy
: > empty.npy
echo hello > text.npy
mkdir folder.npy
printf '\223NUMPY\001\000\166\000' > bare.npy
for file in missing cut empty text lies huge flat other folder bare; do
    expect 3 "input $file.npy" "$snls" search clip.npy $file.npy --out-dist x.npy
    names $file.npy 2> /dev/null
done
for file in big fortran ints; do
    expect 4 "input $file.npy" "$snls" search $file.npy $file.npy --out-dist x.npy
    names $file.npy
done
npy nan_flow.npy '<f4' '(1, 3, 2, 12, 14, 2)' 8060
printf '\000\000\300\177' >> nan_flow.npy
expect 3 "flow that is not finite" "$snls" search clip.npy clip.npy --flow nan_flow.npy --wt 1 --out-dist x.npy
names nan_flow.npy
expect 6 "no cuda" env SNLS_CUDA_LIBRARY=/nowhere.so "$snls" search clip.npy clip.npy --backend cuda --out-dist x.npy

# output: 7
expect 7 "output exists" "$snls" search clip.npy clip.npy --out-dist d_ref.npy
names d_ref.npy
before=$(cksum < d_ref.npy)
expect 3 "a failure with -y" "$snls" search clip.npy missing.npy --out-dist d_ref.npy -y
if [ "$before" = "$(cksum < d_ref.npy)" ]; then ok; else bad "a failed command changed an old output"; fi
expect 7 "output in a folder that is not there" "$snls" search clip.npy clip.npy --out-dist no/x.npy
expect 7 "output is a folder" "$snls" search clip.npy clip.npy --out-dist folder.npy -y
expect 7 "second output cannot be written" "$snls" search clip.npy clip.npy --out-dist x.npy --out-offset no/o.npy
if [ -w /dev/full ]; then expect 7 "full device" "$snls" search clip.npy clip.npy --out-dist /dev/full --out-offset x.npy; fi
expect 0 "overwrite with -y" "$snls" search clip.npy clip.npy --ws 2 --out-dist d_ref.npy -y
if [ "$before" != "$(cksum < d_ref.npy)" ]; then ok; else bad "-y did not overwrite"; fi
if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod 555 locked
    expect 7 "read-only folder" "$snls" search clip.npy clip.npy --out-dist locked/x.npy
    chmod 755 locked
fi

# Run by the loader's name /proc/self/exe is the loader, which cannot be started in the program's place.
loader=$(ldd "$snls" 2> /dev/null | awk '$1 ~ /^\/.*\/ld/ { print $1 }')
[ ! -x "$loader" ] || expect 0 "run by the loader" env -u OMP_WAIT_POLICY -u OPENBLAS_NUM_THREADS "$loader" "$snls" info

# memory: 5. A limit that the program itself fits in
if (ulimit -v 4000000 && "$snls" --version) > /dev/null 2>&1; then # not under AddressSanitizer
    # So little that threads of OpenBLAS wait for memory for ever: the program says so, or does without, but it ends. Unless it has not begun: OpenBLAS 0.3.29 waits while it is loaded.
    blas=$(ldd "$snls" 2> /dev/null | awk '/libopenblas/ { print $3 }')
    waits() { [ -n "$blas" ] && { (ulimit -v $1; exec timeout -s KILL 5 env LD_PRELOAD=$blas true) > /dev/null 2>&1; [ $? = 137 ]; }; }
    "$snls" synth strred.npy --frames 2 --height 64 --width 64 > .stdout
    for kib in 100000 150000 200000 300000 400000; do
        if waits $kib; then continue; fi
        (ulimit -v $kib; exec timeout -s KILL 30 "$snls" info) > .stdout 2> .stderr; code=$?
        case $code in 0 | 5 | 127 | 130) ok ;; *) bad "info with $kib KiB ends with $code" ;; esac # 127: the loader, 130: OpenBLAS while it is loaded
        (ulimit -v $kib; unset OPENBLAS_NUM_THREADS; exec timeout -s KILL 30 "$snls" denoise clip.npy small.npy --sigma 20 --threads 2 -y) > .stdout 2> .stderr; code=$?
        case $code in 0 | 5 | 127 | 130) ok ;; *) bad "denoise with $kib KiB ends with $code" ;; esac
        (ulimit -v $kib; unset OPENBLAS_NUM_THREADS; exec timeout -s KILL 5 "$snls" metrics strred.npy strred.npy --threads 1) > .stdout 2> .stderr; code=$?
        case $code in 0 | 5 | 127 | 130) ok ;; *) bad "metrics with $kib KiB ends with $code" ;; esac
    done
    rm -f small.npy*
    expect 5 "an output larger than memory" bash -c "ulimit -v 4000000; exec '$snls' search clip.npy clip.npy --k 16000000 --out-dist x.npy"
fi

# --json: one object, and the same outputs; help too, where the list is its text
for words in "help --json" "--help --json" "-h -y --json" "help search --json" "search --help --json"; do
    "$snls" $words > .stdout 2> .stderr && [ "$(wc -l < .stdout)" = 1 ] && grep -q '^{.*"text": "snls.*Usage: snls.*}$' .stdout && ok || bad "$words: $(head -c 80 .stdout)" "$(cat .stderr)"
done
"$snls" help -y > .stdout 2> .stderr && grep -q '^Commands:' .stdout && ok || bad "help -y" "$(cat .stderr)"
expect 0 "json" "$snls" weights d_cpu.npy --json --out j.npy
if [ "$(head -c 1 .stdout)" = "{" ] && [ "$(tail -c 2 .stdout | head -c 1)" = "}" ]; then ok; else bad "--json: $(head -c 80 .stdout)"; fi

# signals: killed in the middle of a long search, nothing stays
"$snls" synth long.npy --frames 5 --height 300 --width 300 > /dev/null 2>&1
set -m # without job control a background command ignores SIGINT
ulimit -c 0 # SIGQUIT would leave a core
for signal in INT TERM HUP QUIT USR2; do
    "$snls" search long.npy long.npy --ws 33 --wt 2 --ps 7 --k 10 --backend ref --threads 1 --out-dist sd.npy --out-offset so.npy > /dev/null 2> .stderr &
    pid=$!
    for _ in 1 2 3 4 5 6 7 8 9 10; do [ -e sd.npy.part ] && break; sleep 0.2; done
    kill -$signal $pid
    { sleep 20; kill -KILL $pid; } 2> /dev/null & guard=$!
    disown $guard
    wait $pid 2> /dev/null
    code=$?
    kill -KILL -- -$guard 2> /dev/null
    if [ $code -eq 137 ]; then bad "SIG$signal: had to be killed"; fi
    if [ $code -gt 128 ]; then ok; else bad "SIG$signal: exit $code" "$(cat .stderr)"; fi
    names "search: stopped by SIG$signal"
    if ls sd.npy* so.npy* > /dev/null 2>&1; then bad "SIG$signal leaves $(ls sd.npy* so.npy*)"; rm -f sd.npy* so.npy*; else ok; fi
done

set +m

# a closed stdout is an output that cannot be written
"$snls" info --json 2> .stderr | true
if [ -w /dev/full ]; then "$snls" info > /dev/full 2> .stderr; [ $? -eq 7 ] && ok || bad "info > /dev/full: exit code" "$(cat .stderr)"; fi

echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
