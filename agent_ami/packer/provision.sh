#!/bin/bash
# Makes an image of Debian or Ubuntu whose machines become agents at once: by Packer, or as user data of a stock image.
# AGENT_PACKAGE: where the agent is installed from: a wheel or its address. PULL_IMAGES: task images that machines have from the start.
set -eu
: "${PULL_IMAGES:=}"
VENV=/opt/determined/venv
export DEBIAN_FRONTEND=noninteractive
step() { echo "determined-image: $*"; }

step "no automatic upgrades while work runs"
systemctl disable --now apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service || true
mkdir -p /etc/apt/apt.conf.d
cat > /etc/apt/apt.conf.d/99determined <<'END'
APT::Periodic::Update-Package-Lists "0";
APT::Periodic::Unattended-Upgrade "0";
END

step "docker, time and python"
apt-get update -q
apt-get install -qy --no-install-recommends docker.io iptables chrony python3 python3-venv curl gpg

if command -v nvidia-smi > /dev/null && ! command -v nvidia-ctk > /dev/null; then
    step "NVIDIA container toolkit"
    curl -fsSL https://nvidia.github.io/libnvidia-container/gpgkey |
        gpg --dearmor --yes -o /usr/share/keyrings/nvidia-container-toolkit.gpg
    echo "deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit.gpg]" \
        "https://nvidia.github.io/libnvidia-container/stable/deb/\$(ARCH) /" \
        > /etc/apt/sources.list.d/nvidia-container-toolkit.list
    apt-get update -q
    apt-get install -qy nvidia-container-toolkit
    nvidia-ctk runtime configure --runtime=docker
fi

step "logs that do not fill the disk"
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nSystemMaxUse=500M\nMaxRetentionSec=7day\n' > /etc/systemd/journald.conf.d/determined.conf

step "scratch on the machine's own disks"
cat > /usr/local/sbin/determined-scratch <<'END'
#!/bin/sh
# Mounts the first instance-store disk that holds nothing at /scratch. What is there ends with the machine.
set -eu
for disk in /dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_*[0-9A-F] /dev/disk/by-id/google-local-nvme-ssd-0; do
    [ -b "$disk" ] || continue
    [ -z "$(lsblk --noheadings --output FSTYPE,MOUNTPOINT "$disk" | tr -d ' \n')" ] || continue
    mkfs.ext4 -q -m 0 -E nodiscard "$disk"
    mkdir -p /scratch
    mount -o noatime "$disk" /scratch
    chmod 1777 /scratch
    exit 0
done
END
chmod 755 /usr/local/sbin/determined-scratch
cat > /etc/systemd/system/determined-scratch.service <<'END'
[Unit]
Description=Scratch space of the Determined agent
Before=docker.service det-agent.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/determined-scratch
[Install]
WantedBy=multi-user.target
END

step "metadata address blocked for containers"
cat > /usr/local/sbin/determined-block-metadata <<'END'
#!/bin/sh
iptables -C DOCKER-USER -d 169.254.169.254 -j DROP 2> /dev/null || iptables -I DOCKER-USER -d 169.254.169.254 -j DROP
END
chmod 755 /usr/local/sbin/determined-block-metadata
cat > /etc/systemd/system/determined-block-metadata.service <<'END'
[Unit]
Description=Keep the metadata service from containers
After=docker.service
PartOf=docker.service
Before=det-agent.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/determined-block-metadata
[Install]
WantedBy=docker.service
END

if ! [ -x "$VENV/bin/det-agent" ]; then
    step "agent"
    : "${AGENT_PACKAGE:?is not set: give a wheel, or the address of one}"
    python3 -m venv "$VENV"
    # A cluster tells the versions of the libraries that its wheel was tested with.
    versions=()
    if [[ $AGENT_PACKAGE == */agents/v1/wheel/* ]]; then
        versions=(-c "${AGENT_PACKAGE%/*}/constraints.txt")
    fi
    "$VENV/bin/pip" install -q "${versions[@]}" "$AGENT_PACKAGE"
fi
# User data writes the agent's options and starts it.
"$VENV/bin/det-agent" systemd-unit > /etc/systemd/system/det-agent.service
systemctl daemon-reload
systemctl enable docker chrony determined-scratch determined-block-metadata

for image in $PULL_IMAGES; do
    step "image $image"
    docker pull -q "$image"
done
step "done"
