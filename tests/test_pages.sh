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
    mandoc -Tlint -Wwarning "$work"/man/man1/*.1 >"$work/lint" || bad "mandoc: $(head -3 "$work/lint")"
fi

# methods of flow: a section for each, and all of their options
for command in flow align; do
    by=$([ $command = flow ] && echo method || echo flow)
    "$snls" help $command | grep -q -- "--$by dis --help" || bad "$command --help does not tell how parameters of others are listed"
    for method in farneback tvl1 dis; do
        grep -q "^\.SH PARAMETERS OF .*--*$by $method" "$work/man/man1/snls-$command.1" || bad "no section of $method on the page of $command"
        for option in $("$snls" $command --$by $method --help | grep -oE '^  --[a-z][a-z0-9-]+' | sort -u); do
            grep -E "^    $command:\*\)" "$work/snls" | grep -q -- "$option[ ']" || bad "$command --$by $method: $option is not completed by bash"
            grep -q -- "from $command' -l ${option#--}[ ]" "$work/snls.fish" || bad "$command --$by $method: $option is not completed by fish"
        done
    done
done

complete_in_bash() { bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _snls; echo "${COMPREPLY[*]}"' - "$work/snls" "$@"; }
[ "$(complete_in_bash snls deno)" = denoise ] || bad "snls deno: $(complete_in_bash snls deno)"
[ "$(complete_in_bash snls denoise --preset f)" = fast ] || bad "--preset f: $(complete_in_bash snls denoise --preset f)"
[ "$(complete_in_bash snls denoise --preset = f)" = fast ] || bad "--preset=f: $(complete_in_bash snls denoise --preset = f)"
[ "$(complete_in_bash snls denoise --preset =)" = "fast medium slow" ] || bad "--preset=: $(complete_in_bash snls denoise --preset =)"
[ "$(complete_in_bash snls denoise --preset=f)" = --preset=fast ] || bad "--preset=f as one word: $(complete_in_bash snls denoise --preset=f)"
[ "$(complete_in_bash snls denoise in.mp4 --rep)" = --report ] || bad "--rep: $(complete_in_bash snls denoise in.mp4 --rep)"
[ -z "$(complete_in_bash snls denoise in)" ] || bad "files are left to the shell"
completes() { # WANTED WORDS...
    local wanted=$1; shift
    [ "$(complete_in_bash "$@")" = "$wanted" ] || bad "$*: $(complete_in_bash "$@"), not $wanted"
}
completes 'ref cpu cuda' snls search --backend ''
completes 'auto cpu cuda' snls search --device ''
completes 'auto f32 bf16' snls denoise --precision ''
completes 'farneback tvl1 dis none' snls align --flow ''
completes 'none flow nls search keep' snls align --way ''
completes 'gather gather-add' snls bench --op ga
completes 'bash zsh fish' snls completion ''
completes 'denoise demo' snls man de
completes 'denoise demo' snls help de
completes '--help --version' snls --
completes '-i' snls denoise -i
completes '' snls denoise --progress ''
for words in "-n '__fish_seen_subcommand_from denoise' -s y" "-n '__fish_seen_subcommand_from denoise' -s i -r" "from search' -l help" '__fish_use_subcommand -a help' "from search' -l backend .*'ref cpu cuda'"; do
    grep -q -- "$words" "$work/snls.fish" || bad "fish: nothing of $words"
done
if command -v fish >/dev/null; then
    HOME=$work fish -c "source $work/snls.fish; complete -C 'snls align --way s'" | grep -q '^search' || bad "fish does not complete --way s"
fi

# zsh: the script in a folder of fpath; the first tab of a shell counts
if command -v zsh >/dev/null; then
    cat >tab.zsh <<-END
	zmodload zsh/zpty
	zpty shell zsh -f -i
	zpty -w shell "PS1=; unset zle_bracketed_paste; fpath=($work \$fpath); autoload -U compinit; compinit -u -D; print re''ady"
	zpty -r -m shell said '*ready*'
	zpty -w -n shell \$'snls compl\t fi\t'
	zpty -r -m shell said '*completion*fish*'; print -r -- \$said
	zpty -d shell
	END
    timeout 20 zsh -f tab.zsh >said 2>&1; grep -q 'completion.*fish' said || bad "zsh: the first tab gives $(tr -d '\033' <said)"
fi
for shell in zsh fish; do
    command -v $shell >/dev/null || continue
    case $shell in zsh) $shell -n "$work/_snls" ;; fish) $shell -n "$work/snls.fish" ;; esac || bad "$shell cannot read its script"
done
"$snls" completion tcsh >/dev/null 2>&1; [ $? = 2 ] || bad "an unknown shell is not refused"

# JSON, and who it is that cannot write
for words in "man" "man search" "completion bash" "--version"; do
    "$snls" $words --json >object || bad "$words --json: $?"
    if [ "$(head -c 1 object)" != '{' ] || [ "$(wc -l <object)" != 1 ]; then bad "$words --json is no object"; fi
done
for words in "man search" "completion bash"; do
    "$snls" $words >/dev/full 2>err; [ $? = 7 ] && grep -q "^snls ${words%% *}: .*No space left" err || bad "$words to a full disk: $(cat err)"
done
"$snls" help search refine >/dev/null 2>&1; [ $? = 2 ] || bad "help passes over a word"
[ $failed = 0 ] && echo "test_pages: ok"
exit $((failed > 0))
