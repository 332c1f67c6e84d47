#!/usr/bin/env bash
# test_pages.sh BUILD SOURCE: manual pages and completion scripts name every command and every option of --help, and work.
. "$2/tests/cli.sh"
bash "$2/tools/make_pages.sh" "$snls" "$work" || bad "make_pages.sh"

commands=$("$snls" help | sed -n '/^Commands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p')
[ "$(echo "$commands" | wc -l)" -gt 15 ] || bad "few commands: $commands"
for command in $commands; do
    page=$work/man/man1/snls-$command.1
    [ -s "$page" ] || { bad "no page of $command"; continue; }
    for option in $("$snls" help "$command" | grep -oE '^  --[a-z][a-z0-9-]+' | sort -u); do
        grep -qF -- "\\fB$(echo "$option" | sed 's/-/\\-/g')\\fR" "$page" || bad "$command: $option is not on its page"
        grep -E "^    $command:\*\)" "$work/snls" | grep -q -- "$option[ ']" || bad "$command: $option is not completed by bash"
        grep -q -- "from $command' -l ${option#--}[ ]" "$work/snls.fish" || bad "$command: $option is not completed by fish"
    done
done
if command -v mandoc >/dev/null; then
    mandoc -Tlint -Werror "$work"/man/man1/*.1 >"$work/lint" || bad "mandoc: $(head -3 "$work/lint")"
fi

complete_in_bash() { bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _snls; echo "${COMPREPLY[*]}"' - "$work/snls" "$@"; }
[ "$(complete_in_bash snls deno)" = denoise ] || bad "snls deno: $(complete_in_bash snls deno)"
[ "$(complete_in_bash snls denoise --preset f)" = fast ] || bad "--preset f: $(complete_in_bash snls denoise --preset f)"
[ "$(complete_in_bash snls denoise in.mp4 --rep)" = --report ] || bad "--rep: $(complete_in_bash snls denoise in.mp4 --rep)"
[ -z "$(complete_in_bash snls denoise in)" ] || bad "files are left to the shell"
for shell in zsh fish; do
    command -v $shell >/dev/null || continue
    case $shell in zsh) $shell -n "$work/_snls" ;; fish) $shell -n "$work/snls.fish" ;; esac || bad "$shell cannot read its script"
done
"$snls" completion tcsh >/dev/null 2>&1; [ $? = 2 ] || bad "an unknown shell is not refused"
[ $failed = 0 ] && echo "test_pages: ok"
exit $((failed > 0))
