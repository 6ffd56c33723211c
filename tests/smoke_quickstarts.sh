#!/usr/bin/env bash
# smoke_quickstarts.sh WHEEL [PYTHON]: each quickstart works in an empty environment with what it says to install, the
# wheel being the package: its application is served, and its tests pass.
set -euo pipefail
wheel=$(realpath "$1")
root=$(realpath "$(dirname "$0")/..")
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
mkdir "$place/tests-only"
ln -s "$root/tests" "$place/tests-only" # the checkout itself would hide the wheel
export PIP_DISABLE_PIP_VERSION_CHECK=1 REDIS_COUNTERS_URL=embedded://

for page in "$root"/docs/quickstart-*.md; do
  name=$(basename "$page" .md)
  packages=$(sed -n "s/^pip install '\?\.\(\[[a-z,]*\]\)'\?/\1/p" "$page")
  extras=${packages%% *}
  read -ra others <<<"${packages#"$extras"}"
  "${2:-python3}" -m venv "$place/$name"
  "$place/$name/bin/python" -m pip install -q -q "$wheel$extras" "${others[@]}"
  mkdir "$place/$name/empty"
  export PYTHONPATH=$place/tests-only
  (cd "$place/$name/empty" && "$place/$name/bin/python" -m tests.docs.run "$page")
  (cd "$place/$name/empty" && "$place/$name/bin/python" -c 'import redis_counters; print(redis_counters.__file__)') |
    grep -q "^$place/$name/lib/" || { echo "$name: that was not the wheel"; exit 1; }
  unset PYTHONPATH
  echo "$name: installed, served and tested"
done
