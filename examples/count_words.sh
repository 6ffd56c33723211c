#!/bin/sh
# Four processes count at once, first the words of a text, then the files of a directory by extension; then every count
# in Redis is compared with what sort | uniq -c says.
#
#   examples/count_words.sh [TEXT [DIRECTORY]]
#
# The server is the one of REDIS_COUNTERS_URL, else redis://localhost:6379/0.
set -eu
LC_ALL=C
export LC_ALL

text=${1:-/usr/share/common-licenses/GPL-3}
directory=${2:-/usr/share/doc}
counters=${REDIS_COUNTERS:-redis-counters}
# Counts add up from run to run; a namespace of its own makes this run start at 0.
namespace=example-$(date +%s)-$$

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# count_and_compare TITLE PREFIX: standard input holds a name per line.
count_and_compare() {
    cat >"$work/names"
    for part in 0 1 2 3; do
        awk -v part="$part" 'NR % 4 == part' "$work/names" >"$work/part$part"
        # shellcheck disable=SC2086  # the command may have arguments
        $counters count --namespace "$namespace" --prefix "$2" "$work/part$part" &
        eval "pid$part=$!"
    done
    wait "$pid0" && wait "$pid1" && wait "$pid2" && wait "$pid3"

    sort "$work/names" | uniq -c | awk -v prefix="$2" '{ n = $1; sub(/^ *[0-9]+ /, ""); print prefix $0 "\t" n }' \
        >"$work/expected"
    # shellcheck disable=SC2086
    sort -u "$work/names" | sed "s/^/$2/" | xargs -d '\n' $counters get --namespace "$namespace" -- >"$work/counted"
    diff "$work/expected" "$work/counted"
    echo "$1: $(wc -l <"$work/names") lines, $(wc -l <"$work/counted") counters, all equal to sort | uniq -c; the largest:"
    sort -t "$(printf '\t')" -k 2 -n -r "$work/counted" | sed 5q
}

tr -cs 'A-Za-z' '\n' <"$text" | count_and_compare words word:
find "$directory" -type f | sed -n 's/.*\.//p' | count_and_compare extensions ext:
