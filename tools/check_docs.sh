#!/bin/bash
# check_docs.sh BUILD [ROOT]: the documentation agrees with what was built: docs/options.md is what the command line
# prints, relative links lead to files, and every complete C program of README.md and docs/embedding.md compiles and runs.
# Exit status 77: there is no command line in this build, so the options were not compared.
set -u
build=$(cd "${1:?build folder}" && pwd) || exit 2
root=$(cd "${2:-$(dirname "$0")/..}" && pwd) || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "check_docs: $1"; failures=$((failures + 1)); }

# ---- options ----
compared=yes
if [ ! -x "$build/snls" ]; then
    compared=no
elif ! "$build/snls" options --markdown >"$work/options.md"; then
    fail "snls options --markdown failed"
elif ! diff -u "$root/docs/options.md" "$work/options.md"; then
    fail "docs/options.md is not what snls options --markdown prints"
fi

# ---- links: [text](target), src="target", [text]: target; code is left out ----
links=0
for page in "$root"/README.md "$root"/CONTRIBUTING.md "$root"/docs/*.md; do
    while read -r target; do
        links=$((links + 1))
        [ -e "$(dirname "$page")/$target" ] || fail "${page#"$root"/} links to $target, which is not there"
    done < <(perl -0777 -ne 's/^```.*?^```//msg; s/`[^`\n]*`//g;
        while (/\]\(([^)\s]+)|\bsrc="([^"]+)"|^\[[^\]]+\]:\s*(\S+)/mg) {
            my $t = $1 // $2 // $3;
            next if $t =~ /^([a-z]+:|#)/;
            $t =~ s/#.*//;
            print "$t\n";
        }' "$page")
done

# ---- programs: blocks of C that have a main ----
perl -e 'my ($out, @pages) = @ARGV;
    for my $page (@pages) {
        open my $in, "<", $page or die "$page: $!\n";
        my ($at, $text);
        while (<$in>) {
            if (!defined $at) { if (/^```c\s*$/) { $at = $. + 1; $text = "" } }
            elsif (/^```\s*$/) {
                if ($text =~ /\bmain\s*\(/) {
                    (my $name = $page) =~ s{.*/}{};
                    open my $to, ">", "$out/$name-$at.c" or die "$!\n";
                    print $to "#line $at \"$name\"\n$text";
                }
                undef $at;
            }
            else { $text .= $_ }
        }
    }' "$work" "$root/README.md" "$root/docs/embedding.md" || fail "the C blocks could not be read"

sanitize=$(sed -n 's/^SNLS_SANITIZE:STRING=//p' "$build/CMakeCache.txt")
flags="-std=c11 -Wall -Wextra -Werror${sanitize:+ -fsanitize=$sanitize}"
programs=0
for source in "$work"/*.c; do
    [ -e "$source" ] || break
    name=$(basename "$source" .c)
    programs=$((programs + 1))
    ${CC:-cc} $flags "-I$root/include" "$source" -o "$work/program" "-L$build" "-Wl,-rpath,$build" -lsnls -lm || {
        fail "the program at $name does not compile"
        continue
    }
    (cd "$work" && timeout 60 ./program >log 2>&1)
    status=$?
    [ $status = 0 ] || { cat "$work/log"; fail "the program at $name ends with status $status"; }
done
[ $programs -gt 0 ] || fail "no program was found"

[ $failures = 0 ] || exit 1
echo "check_docs: ok, $links links, $programs programs"
if [ $compared = no ]; then echo "check_docs: $build/snls is not there, docs/options.md was not compared"; exit 77; fi
