#!/bin/bash
# make_pages.sh SNLS FOLDER: manual pages and completion scripts of this program, as they are installed.
set -eu
snls=$1
to=$2
mkdir -p "$to/man/man1"
"$snls" man >"$to/man/man1/snls.1"
for command in $("$snls" help | sed -n '/^Commands:/,$ s/^  \([a-z][a-z-]*\) .*/\1/p'); do
    "$snls" man "$command" >"$to/man/man1/snls-$command.1"
done
"$snls" completion bash >"$to/snls"
"$snls" completion zsh >"$to/_snls"
"$snls" completion fish >"$to/snls.fish"
touch "$to/stamp"
