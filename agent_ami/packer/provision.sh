#!/bin/bash
# Makes an image of Debian or Ubuntu whose machines become agents at once: by Packer, or as user data of a stock image.
# AGENT_PACKAGE: where the agent is installed from: a wheel or its address. PULL_IMAGES: task images that machines have from the start.
set -eu -o pipefail
: "${PULL_IMAGES:=}"
VENV=/opt/determined/venv
export DEBIAN_FRONTEND=noninteractive
step() { echo "determined-image: $*"; }

# The image's own first upgrade may hold apt's locks, and a mirror may fail for a moment.
apt() {
    local pause
    for pause in 5 10 20 40 80; do
        apt-get -o DPkg::Lock::Timeout=600 "$@" && return
        step "apt-get $1 failed: again in $pause s"
        sleep "$pause"
    done
    apt-get -o DPkg::Lock::Timeout=600 "$@"
}

step "docker, time and python"
apt update -q
engine=(docker.io)
command -v docker > /dev/null && engine=() # AWS's images have Docker's own package, which Debian's would push out
apt install -qy --no-install-recommends "${engine[@]}" iptables chrony python3 python3-venv curl gpg

step "a faster program that unpacks images"
# Docker unpacks layers with the program unpigz if there is one, and else by itself. igzip needs less CPU time than both.
if apt install -qy --no-install-recommends isal; then
    printf '#!/bin/sh\nexec igzip "$@"\n' > /usr/local/bin/unpigz
    chmod 755 /usr/local/bin/unpigz
else
    step "no package isal: Docker unpacks images by itself"
fi

if command -v nvidia-smi > /dev/null && ! command -v nvidia-ctk > /dev/null; then
    step "NVIDIA container toolkit"
    curl -fsSL --retry 5 https://nvidia.github.io/libnvidia-container/gpgkey |
        gpg --dearmor --yes -o /usr/share/keyrings/nvidia-container-toolkit.gpg
    echo "deb [signed-by=/usr/share/keyrings/nvidia-container-toolkit.gpg]" \
        "https://nvidia.github.io/libnvidia-container/stable/deb/\$(ARCH) /" \
        > /etc/apt/sources.list.d/nvidia-container-toolkit.list
    apt update -q
    apt install -qy nvidia-container-toolkit
    nvidia-ctk runtime configure --runtime=docker
fi

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
"$VENV/bin/det-agent" machine-setup | bash
systemctl enable docker chrony

for image in $PULL_IMAGES; do
    step "image $image"
    "$VENV/bin/det-agent" pull "$image" || docker pull -q "$image"
done
mkdir -p /etc/determined
date --utc +%Y-%m-%dT%H:%M:%SZ > /etc/determined/image-built-at # agents report the age of their image
sync
step "done"
