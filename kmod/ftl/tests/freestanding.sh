#!/bin/sh
# SPDX-License-Identifier: (MIT OR GPL-2.0-only)
# freestanding.sh DIR ALLOWED COMPILER...: compile every source of the core with the compiler and
# options given; fail if all together leave a symbol undefined other than ALLOWED.
set -eu

dir=$1 allowed=$2
shift 2
rm -rf "$dir"
mkdir -p "$dir"
for source in *.c; do
	"$@" -c "$source" -o "$dir/${source%.c}.o"
done
nm -u "$dir"/*.o | awk 'NF == 2 && $1 == "U" { print $2 }' | sort -u >"$dir/undefined"
nm --defined-only "$dir"/*.o | awk 'NF == 3 { print $3 }' | sort -u >"$dir/defined"
left=$(comm -23 "$dir/undefined" "$dir/defined" | grep -vx "${allowed:-none}" || true)
if [ -n "$left" ]; then
	echo "undefined: $left" >&2
	exit 1
fi
