#!/bin/sh
# Installs, upgrades or configures the agent. `det agent join` runs it as root in a folder with the files of the agent.
# The file `settings` beside it sets $python, $service, $release and $restart.
set -eu
here=$1
home=/opt/determined etc=/etc/determined
step() { echo "det-agent-join: $*"; }
python="" service="" release="" restart=""
# shellcheck disable=SC1091
. "$here/settings"
exec 9> /run/determined-join.lock
flock -n 9 || { step "locked"; exit 75; }

step "files"
umask 022
mkdir -p "$home/releases" "$etc"

venv=$home/releases/$release
if ! [ -e "$venv/.complete" ]; then
    step "environment"
    rm -rf "$venv"
    "$python" -m venv "$venv"
    step "libraries"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -c "$here/constraints.txt" \
        -r "$here/libraries.txt"
    step "agent"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --no-deps "$here"/*.whl
    "$venv/bin/det-agent" --version
    touch "$venv/.complete"
fi

step "configuration"
put() { # the mode, and the name below /etc/determined: replace the file at once
    install -m "$1" "$here/$2" "$etc/.$2.new"
    mv -f "$etc/.$2.new" "$etc/$2"
}
if [ -e "$here/token" ]; then put 600 token; fi
if [ -e "$here/master.crt" ]; then put 644 master.crt; fi
put 644 agent.yaml

step "version"
before=$(readlink "$home/venv" 2> /dev/null || true)
# An image of a cloud machine has a folder here.
if [ -d "$home/venv" ] && ! [ -L "$home/venv" ]; then
    before=$home/releases/before
    mv "$home/venv" "$before"
fi
ln -sfn "$venv" "$home/.venv.new"
mv -fT "$home/.venv.new" "$home/venv"
# Tasks without containers may still run in the environment before this one.
for old in "$home"/releases/*; do
    if [ "$old" != "$venv" ] && [ "$old" != "$before" ]; then rm -rf "$old"; fi
done

if [ "$service" = systemd ]; then
    step "service"
    "$home/venv/bin/det-agent" systemd-unit > "$here/det-agent.service"
    install -m 644 "$here/det-agent.service" /etc/systemd/system/det-agent.service
    systemctl daemon-reload
    systemctl -q enable det-agent
    if [ "$restart" = yes ]; then systemctl restart det-agent; else systemctl start det-agent; fi
else
    step "process"
    pid=$(cat /run/determined-agent.pid 2> /dev/null || true)
    if [ -n "$pid" ] && [ "$restart" = yes ]; then
        kill "$pid" 2> /dev/null || true
        for _ in $(seq 300); do
            kill -0 "$pid" 2> /dev/null || break
            sleep 0.1
        done
    fi
    if [ -z "$pid" ] || ! kill -0 "$pid" 2> /dev/null; then
        DET_CONFIG_FILE=$etc/agent.yaml setsid "$home/venv/bin/det-agent" run \
            >> /var/log/determined-agent.log 2>&1 < /dev/null 9>&- &
        echo $! > /run/determined-agent.pid
    fi
fi
put 644 fleet.json
step "done"
