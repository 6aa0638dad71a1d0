#!/bin/sh
# Prints facts about this machine, one `name<TAB>value` a line. `det agent join` sends it to `sh -s`.
# The lines before it set $service, $python and $master.
: "${service:=systemd}" "${python:=}" "${master:=}"
fact() { printf '%s\t%s\n' "$1" "$2"; }
quiet() { timeout 20 "$@" < /dev/null > /dev/null 2>&1; }

fact system "$(uname -s)"
fact machine "$(uname -m)"
fact hostname "$(hostname 2> /dev/null || uname -n)"
fact user "$(id -un)"
root=
if [ "$(id -u)" != 0 ]; then
    root="sudo -n"
    if ! quiet sudo -n true; then fact no_root yes; fi
fi
if [ -d /run/systemd/system ]; then fact systemd yes; fi
for tool in tar flock setsid; do
    if ! command -v "$tool" > /dev/null; then fact "missing:$tool" yes; fi
done

new_enough='import sys; sys.exit(sys.version_info < (3, 10))'
found=
for candidate in ${python:-python3 python3.14 python3.13 python3.12 python3.11 python3.10}; do
    if quiet "$candidate" -c "$new_enough"; then
        found=$(command -v "$candidate")
        break
    fi
    old=$("$candidate" --version 2> /dev/null < /dev/null || true)
    if [ -n "$old" ]; then fact old_python "$old"; fi
done
if [ -n "$found" ]; then
    fact python "$found"
    fact python_version "$("$found" -c 'import platform; print(platform.python_version())' < /dev/null)"
    if ! quiet "$found" -c 'import ensurepip, venv'; then fact no_venv yes; fi
fi

# shellcheck disable=SC2086  # empty, or two words
if quiet $root docker version; then fact engine Docker
elif [ -S /run/podman/podman.sock ]; then fact engine Podman
elif command -v docker > /dev/null; then fact silent_engine Docker
elif command -v podman > /dev/null; then fact silent_engine Podman; fi
for folder in /opt /var/lib; do
    fact "free_kib:$folder" "$(df -Pk "$folder" 2> /dev/null | awk 'NR == 2 {print $4}')"
done

for device in /sys/bus/pci/devices/*; do
    case $(cat "$device/vendor" "$device/class" 2> /dev/null | tr -d '\n') in
    0x10de0x0300* | 0x10de0x0302*) fact nvidia_device yes ;;
    esac
done
if command -v nvidia-smi > /dev/null; then
    fact gpus "$(timeout 30 nvidia-smi -L 2> /dev/null < /dev/null | grep -c '^GPU')"
fi
if command -v nvidia-ctk > /dev/null || command -v nvidia-container-runtime-hook > /dev/null; then
    fact gpu_toolkit yes
fi

if [ -r /etc/determined/fleet.json ]; then fact joined "$(tr -d '\n' < /etc/determined/fleet.json)"; fi
if [ -e /etc/determined/agent.yaml ]; then fact configured yes; fi
if [ -e /etc/determined/token ]; then fact has_token yes; fi
pid=$(cat /run/determined-agent.pid 2> /dev/null || true)
if [ "$service" = systemd ]; then
    if quiet systemctl is-active det-agent; then fact active yes; fi
elif [ -n "$pid" ] && [ -d "/proc/$pid" ]; then
    fact active yes
fi

if [ -n "$found" ] && [ -n "$master" ]; then
    "$found" - "$master" << 'END'
import hashlib
import http.client
import json
import ssl
import sys
import time
import urllib.parse
from email.utils import parsedate_to_datetime

asked = json.loads(sys.argv[1])
url = urllib.parse.urlsplit(asked["url"])
try:
    if url.scheme == "https":
        context = ssl.create_default_context(cadata=asked["certificate"] or None)
        if asked["fingerprint"] or not asked["verify"]:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        client = http.client.HTTPSConnection(url.hostname, url.port or 443, timeout=15, context=context)
        client.connect()
        shown = hashlib.sha256(client.sock.getpeercert(binary_form=True)).hexdigest()
        if asked["fingerprint"] and shown != asked["fingerprint"].replace(":", "").lower():
            raise OSError("it shows another certificate than the one that this command trusts")
    else:
        client = http.client.HTTPConnection(url.hostname, url.port or 80, timeout=15)
    client.request("GET", url.path.rstrip("/") + "/info")
    answer = client.getresponse()
    here = time.time()
    cluster = json.loads(answer.read()).get("cluster_id", "")
    print("cluster\t%s" % cluster)
    date = answer.getheader("Date")
    if date:
        print("clock_ahead_s\t%.1f" % (here - parsedate_to_datetime(date).timestamp()))
except Exception as e:
    print("unreachable\t%s" % " ".join(str(e).split() or [type(e).__name__]))
END
fi
