#!/bin/bash
# ctest: label=tree
exec bash "$2/tools/check_docs.sh" "$1" "$2"
