#!/bin/bash
# Prepares a machine of Debian or Ubuntu for work: what images have from the start, and stock images get when they boot.
# `det-agent machine-setup` prints it. It may run again on the same machine.
set -eu
step() { echo "determined-boot: $*"; }

step "no automatic upgrades while work runs"
systemctl disable --now apt-daily.timer apt-daily-upgrade.timer unattended-upgrades.service || true
mkdir -p /etc/apt/apt.conf.d
cat > /etc/apt/apt.conf.d/99determined <<'END'
APT::Periodic::Update-Package-Lists "0";
APT::Periodic::Unattended-Upgrade "0";
END
# Nor of snaps: with each, systemd reads its units again, and takes the GPUs from containers that run.
if command -v snap > /dev/null; then
    day=$(date --utc --date='+60 days' +%Y-%m-%dT%H:%M:%SZ) # the most that older releases take
    timeout 60 snap refresh --hold || timeout 60 snap set system "refresh.hold=$day" ||
        step "snaps may upgrade themselves"
fi
for _ in $(seq 120); do # an upgrade that runs already may restart Docker
    [ "$(systemctl show --property=ActiveState --value apt-daily-upgrade.service || true)" = activating ] || break
    sleep 5
done

step "logs that do not fill the disk"
mkdir -p /etc/systemd/journald.conf.d
printf '[Journal]\nSystemMaxUse=500M\nMaxRetentionSec=7day\n' > /etc/systemd/journald.conf.d/determined.conf
systemctl try-restart systemd-journald || true

step "scratch on the machine's own disks"
cat > /usr/local/sbin/determined-scratch <<'END'
#!/bin/sh
# Mounts the first empty instance-store disk at /scratch. Its content ends with the machine.
# Docker's images and the data sets of tasks are then stored there too: these disks are faster than network disks.
set -eu
DOCKER=/var/lib/docker CONTAINERD=/var/lib/containerd DATA=/var/lib/determined/agent/data
LEAST_KB=60000000 # a smaller disk keeps all its room for tasks

has_images() {
    for folder in "$DOCKER"/image/*/imagedb/content/sha256 "$DOCKER"/containers \
        "$CONTAINERD"/io.containerd.content.v1.content/blobs/sha256; do
        [ -z "$(ls -A "$folder" 2> /dev/null)" ] || return 0
    done
    return 1
}
store() { # FOLDER NAME: on the disk
    mkdir -p "/scratch/$2" "$1"
    chmod 711 "/scratch/$2"
    mount --bind "/scratch/$2" "$1"
}
store_all() {
    chmod 1777 /scratch
    [ "$(df -k --output=avail /scratch | tail -n 1)" -ge "$LEAST_KB" ] || exit 0
    mountpoint -q "$DATA" || store "$DATA" determined-data
    # Images of the machine image stay where they are.
    ! has_images || exit 0
    was_active=
    if systemctl -q is-active docker; then
        was_active=1
        systemctl stop docker.socket docker containerd
    fi
    store "$CONTAINERD" containerd
    store "$DOCKER" docker
    # Docker waits for the end of this unit, so this program cannot wait for Docker.
    [ -z "$was_active" ] || systemctl start --no-block docker.socket docker
    exit 0
}

! mountpoint -q /scratch || exit 0
# AWS's images with NVIDIA's driver join all such disks, and mount them here.
joined=/opt/dlami/nvme
if mountpoint -q "$joined"; then
    mkdir -p /scratch
    mount --bind "$joined" /scratch
    store_all
fi
for disk in /dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_*[0-9A-F] /dev/disk/by-id/google-local-nvme-ssd-0; do
    [ -b "$disk" ] || continue
    [ -z "$(lsblk --noheadings --output FSTYPE,MOUNTPOINT "$disk" | tr -d ' \n')" ] || continue
    mkfs.ext4 -q -m 0 -E nodiscard "$disk"
    mkdir -p /scratch
    mount -o noatime "$disk" /scratch
    store_all
done
END
chmod 755 /usr/local/sbin/determined-scratch
mkdir -p /etc/systemd/system
cat > /etc/systemd/system/determined-scratch.service <<'END'
[Unit]
Description=Scratch space of the Determined agent
After=dlami-nvme.service
Before=containerd.service docker.service det-agent.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/determined-scratch
[Install]
WantedBy=multi-user.target
END

step "packets of containers that fit into the machine's network"
cat > /usr/local/sbin/determined-docker-mtu <<'END'
#!/bin/sh
# Sets the MTU of Docker's networks to the MTU of the machine's network if it is below Docker's 1500 (1460 on Compute Engine).
# Some networks drop larger packets of a container without reporting it.
set -eu
interface=$(ip -4 route show default | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1)
mtu=$(cat "/sys/class/net/$interface/mtu")
[ "$mtu" -lt 1500 ] || exit 0
python3 - "$mtu" <<'PYTHON'
import json
import pathlib
import sys

mtu, path = int(sys.argv[1]), pathlib.Path("/etc/docker/daemon.json")
before = json.loads(path.read_text()) if path.exists() else {}
options = {**before, "mtu": mtu}
if options != before:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(options, indent=4))
    print("changed")
PYTHON
END
chmod 755 /usr/local/sbin/determined-docker-mtu
if [ "$(/usr/local/sbin/determined-docker-mtu || true)" = changed ]; then
    systemctl try-restart docker || true
fi

step "blocking the metadata address for containers"
cat > /usr/local/sbin/determined-block-metadata <<'END'
#!/bin/sh
# Keeps the metadata service from containers. On Compute Engine the same address answers their DNS: that passes.
# The last rule that is put in front is looked at first.
set -eu
rm -f /run/determined-slice
# Containers in the machine's own network are told from its own programs by their slice. A rule is for the slice
# that there is when it is made, so it is made anew. The agent starts containers there as long as a file names it.
slice=determined.slice
of_slice() {
    while iptables -D OUTPUT -d 169.254.169.254 -m cgroup --path "$slice" "$@" 2> /dev/null; do :; done
    iptables -I OUTPUT -d 169.254.169.254 -m cgroup --path "$slice" "$@"
}
tree=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET || true)
[ -z "$tree" ] || systemctl -q start "$slice" 2> /dev/null || true
[ -z "$tree" ] || mkdir -p "$tree/$slice"
if [ -n "$tree" ] && of_slice -j REJECT && of_slice -p tcp --dport 53 -j RETURN && of_slice -p udp --dport 53 -j RETURN; then
    echo "$slice" > /run/determined-slice
else
    echo "determined-boot: no match of control groups: containers in the machine's own network may reach the metadata service"
fi
rule() {
    iptables -C DOCKER-USER -d 169.254.169.254 "$@" 2> /dev/null ||
        iptables -I DOCKER-USER -d 169.254.169.254 "$@"
}
rule -j DROP
rule -p tcp --dport 53 -j RETURN
rule -p udp --dport 53 -j RETURN
END
chmod 755 /usr/local/sbin/determined-block-metadata
cat > /etc/systemd/system/determined.slice <<'END'
[Unit]
Description=Containers in the network of this machine
END
cat > /etc/systemd/system/determined-block-metadata.service <<'END'
[Unit]
Description=Keep the metadata service from containers
Wants=determined.slice
After=docker.service determined.slice
PartOf=docker.service
Before=det-agent.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/determined-block-metadata
[Install]
WantedBy=docker.service
END
/usr/local/sbin/determined-block-metadata ||
    step "no chain DOCKER-USER: containers may reach the metadata service"

command -v systemctl > /dev/null || exit 0
[ ! -d /run/systemd/system ] || systemctl daemon-reload
systemctl enable determined-scratch determined-block-metadata
