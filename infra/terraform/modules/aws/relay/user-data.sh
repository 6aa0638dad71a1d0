#!/bin/bash
# Sets up this machine as the relay of a cluster. At each start it loads the newest program and settings. When no task needs
# the relay for a while, the program exits and the machine stops.
set -eu
# dnf needs more memory than the smallest machines have. Without swap, the kernel would kill it.
dd if=/dev/zero of=/swap bs=1M count=512 status=none
chmod 600 /swap
mkswap /swap
echo '/swap none swap defaults 0 0' >> /etc/fstab
swapon /swap
# At the first start, the network may not be ready yet.
until dnf install --assumeyes awscli-2; do sleep 10; done
useradd --system --no-create-home --shell /sbin/nologin determined
install --directory --owner determined /var/task
# The program's libraries are built for one version of Python. A later deployment may use another version.
cat > /usr/local/bin/determined-relay-python <<'END'
#!/bin/sh
set -eu
python=$(aws lambda get-function --function-name ${function} --query Configuration.Runtime --output text)
command -v "$python" > /dev/null || dnf install --assumeyes "$python"
ln -sfn "$(command -v "$python")" /usr/local/bin/relay-python
END
chmod 755 /usr/local/bin/determined-relay-python
cat > /usr/local/bin/determined-relay <<'END'
"""Fetch the relay's program and settings from the function that keeps them, and become it."""
import io, json, os, subprocess, sys, urllib.request, zipfile

command = ["aws", "lambda", "get-function", "--function-name", "${function}", "--output", "json"]
function = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
with urllib.request.urlopen(function["Code"]["Location"], timeout=120) as answer:
    zipfile.ZipFile(io.BytesIO(answer.read())).extractall("/var/task")
settings = function["Configuration"]["Environment"]["Variables"]
settings["DET_RELAY_DEPLOYED"] = json.dumps(function["Configuration"])
os.chdir("/var/task")
program = [sys.executable, "-m", "det_controlplane.entry.container.main"]
os.execve(sys.executable, program, {**os.environ, **settings, "PYTHONPATH": "/var/task"})
END
cat > /etc/systemd/system/determined-relay.service <<'END'
[Unit]
Description=Traffic to tasks of a Determined cluster
Wants=network-online.target
After=network-online.target
# A program that fails repeatedly must not keep the machine running.
StartLimitIntervalSec=3600
StartLimitBurst=120
StartLimitAction=poweroff
SuccessAction=poweroff

[Service]
User=determined
Environment=AWS_USE_DUALSTACK_ENDPOINT=${dual_stack} AWS_DEFAULT_REGION=${region} HOME=/tmp
ExecStartPre=+/usr/local/bin/determined-relay-python
ExecStart=/usr/local/bin/relay-python /usr/local/bin/determined-relay
TimeoutStartSec=600
Restart=on-failure
RestartSec=5
LimitNOFILE=65536
NoNewPrivileges=true
PrivateTmp=true
ProtectHome=true

[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now determined-relay
