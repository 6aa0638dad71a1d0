#!/bin/sh
# Stops the agent and removes its files. `det agent join --remove` sends it to a shell of root.
set -eu
step() { echo "det-agent-join: $*"; }
exec 9> /run/determined-join.lock
flock -n 9 || { step "locked"; exit 75; }

step "stop"
if [ -d /run/systemd/system ] && [ -e /etc/systemd/system/det-agent.service ]; then
    systemctl -q disable --now det-agent < /dev/null
    rm -f /etc/systemd/system/det-agent.service
    systemctl daemon-reload < /dev/null
fi
pid=$(cat /run/determined-agent.pid 2> /dev/null || true)
if [ -n "$pid" ]; then
    kill "$pid" 2> /dev/null || true
    for _ in $(seq 300); do
        kill -0 "$pid" 2> /dev/null || break
        sleep 0.1
    done
fi

step "files"
rm -rf /opt/determined/venv /opt/determined/releases /var/lib/determined/agent
rm -f /etc/determined/agent.yaml /etc/determined/token /etc/determined/master.crt /etc/determined/fleet.json
rm -f /run/determined-agent.pid /var/log/determined-agent.log
rmdir /opt/determined /etc/determined /var/lib/determined 2> /dev/null || true
step "done"
