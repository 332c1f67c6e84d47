#!/usr/bin/env bash
# test_align.sh BUILD SOURCE: snls align on clips that snls synth makes: what helps, what is written, what is refused.
. "$2/tests/cli.sh"
value() { sed -nE "s/.*\"psnr\": \{[^}]*\"$1\": ([-0-9.e+]+|null).*/\\1/p" "$2"; }
more() { awk -v a="$1" -v b="$2" -v by="$3" 'BEGIN { exit !(a != "" && b != "" && a + 0 >= b + by) }' || bad "$4: $1 is not $2 and $3 more"; }

# a camera that moves further than the window reaches: the shifted search wins over both others, keeping wins over it
"$snls" synth clip.npy --frames 3 --height 64 --width 96 --camera-x 8.4 --camera-y -6.2 --object-size 0 --out-fflow true.npy || bad synth
"$snls" align clip.npy a.npy --ws 7 --flow dis --seed 3 --json > a.json || bad "align: $(cat a.json)"
more "$(value search a.json)" "$(value nls a.json)" 2 "shifted over unshifted"
more "$(value search a.json)" "$(value none a.json)" 4 "shifted over nothing"
more "$(value keep a.json)" "$(value search a.json)" 0 "kept over searched"

# true flow from a file, no noise: the flow alone is nearly exact, and nothing searched can be far from it
"$snls" align clip.npy b.npy --ws 3 --flow true.npy --noise 0 --json > b.json || bad "flow from a file"
more "$(value flow b.json)" "$(value none b.json)" 4 "true flow over nothing"
more "$(value search b.json)" "$(value flow b.json)" -3 "search around the true flow"

# a flow that is wrong by a pixel everywhere, under so much noise that one patch cannot tell: the neighbourhood can, and the fee of a search falls
"$snls" synth other.npy --frames 3 --height 64 --width 96 --camera-x 9.4 --camera-y -5.8 --object-size 0 --out-fflow wrong.npy > /dev/null || bad synth
"$snls" align clip.npy w.npy --ws 3 --flow wrong.npy --noise 50 --seed 3 --json > w.json || bad "a wrong flow"
more "$(value keep w.json)" "$(value search w.json)" 0.8 "a wrong flow: kept over searched"

# no motion: keeping never loses to the unshifted search, with any flow
"$snls" synth still.npy --frames 2 --height 64 --width 96 --camera-x 0 --camera-y 0 --object-size 0 > /dev/null || bad synth
for flow in none farneback dis; do
    "$snls" align still.npy s.npy -y --ws 9 --flow $flow --json > s.json || bad "still, $flow"
    more "$(value keep s.json)" "$(value nls s.json)" 0 "still clip, $flow: kept over unshifted"
done

# no flow is the unshifted search; one seed is one result, and the number of threads does not matter
"$snls" align clip.npy c.npy --flow none --ws 5 --json > c.json
[ "$(value nls c.json)" = "$(value search c.json)" ] || bad "without flow the searches differ: $(cat c.json)"
"$snls" align clip.npy a1.npy --ws 7 --flow dis --seed 3 --threads 1 > /dev/null && cmp a.npy a1.npy || bad "one thread gives another result"

# pictures, folders, ways
if "$snls" --version | grep -q 'png yes'; then
    "$snls" align clip.npy out --way keep --picture p.png --corrections c.png > log || bad "pictures: $(cat log)"
    [ "$(ls out | tr '\n' ' ')" = "00000.png 00001.png 00002.png " ] || bad "folder holds: $(ls out)"
    [ -s p.png ] && [ -s c.png ] || bad "pictures are missing"
    "$snls" metrics out out > /dev/null 2>&1 || bad "the folder cannot be read back"
    mkdir twice; cp out/00000.png twice/0.png; cp out/00000.png twice/1.png; cp out/00002.png twice/2.png # a pair that is equal tells nothing of the other
    "$snls" align twice t.npy --flow none --json > t.json 2> log || bad "a frame twice: $(cat log)"; more "$(value none t.json)" 1 0 "a frame twice: mean of the others"
    more 100 "$(value none t.json)" 0 "a frame twice: mean of the others"
fi

expect() # CODE WHAT ARGUMENTS...
{
    local want=$1 what=$2
    shift 2
    "$snls" align "$@" > out.log 2> err.log
    local code=$?
    [ $code = "$want" ] || bad "$what: exit $code, expected $want: $(cat err.log)"
    [ "$(wc -l < err.log)" = 1 ] || bad "$what: stderr is not one line: $(cat err.log)"
}
# vectors that nobody knows (above 1e9) are no motion
printf 'PIEH\140\0\0\0\100\0\0\0' >unknown.flo
for _ in $(seq 6144); do printf '\371\002\025\120\371\002\025\120'; done >>unknown.flo # 1e10, 1e10
"$snls" synth two.npy --frames 2 --height 64 --width 96 >/dev/null && "$snls" align two.npy u.npy --ws 3 --flow unknown.flo --json >u.json 2>u.err || bad "unknown flow: $(cat u.err)"
grep -q '6144 vectors are unknown' u.err && [ "$(value flow u.json)" = "$(value none u.json)" ] || bad "unknown flow: $(cat u.err u.json)"

expect 2 "no such flow" clip.npy x.npy --flow lucas
expect 2 "a picture that is no .png" clip.npy x.npy --picture p.jpg
expect 2 "corrections that are no .png" clip.npy x.npy --corrections c.jpg
expect 2 "no such way" clip.npy x.npy --way best
expect 2 "an option of another flow" clip.npy x.npy --flow dis --winsize 5
grep -q -- "--flow dis --help' lists" err.log || bad "an option of another flow: $(cat err.log)"
expect 2 "ws 0" clip.npy x.npy --ws 0
expect 3 "flow of another size" clip.npy x.npy --flow clip.npy
expect 3 "nothing there" nothing.npy x.npy
expect 7 "exists" clip.npy a.npy
ls ./*.part 2> /dev/null && bad "parts are left"
[ $failed = 0 ] && echo "test_align: ok"
exit $((failed > 0))
