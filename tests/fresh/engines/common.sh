# Functions for scripts that run a command with an engine of theirs. They change the system: only for fresh machines.
# shellcheck shell=sh

CANNOT_INSTALL=77

packages() { # NAME... installs packages of Debian or Ubuntu
	{ apt-get -o Acquire::Retries=3 update && apt-get -o Acquire::Retries=3 install -y --no-install-recommends "$@"; } >/tmp/packages.log 2>&1 || no_packages
}

no_packages() {
	cat /tmp/packages.log >&2
	exit $CANNOT_INSTALL
}

wait_for() { # SOCKET LOG
	for _ in $(seq 300); do
		test -S "$1" && return
		sleep 0.2
	done
	cat "$2" >&2
	exit 1
}

make_user() { # makes the user of rootless engines
	useradd --create-home --shell /bin/sh rootless
	grep -q '^rootless:' /etc/subuid || echo rootless:100000:65536 | tee -a /etc/subuid >>/etc/subgid
	runtime=/run/user/$(id -u rootless)
	install -d -o rootless -g rootless -m 700 /run/user "$runtime"
	chmod 755 /run/user
	# On machines with udev everybody may make tunnels.
	mknod /tmp/tun c 10 200
	chmod 666 /tmp/tun
	mount --bind /tmp/tun /dev/net/tun
}

as_user() { # COMMAND...
	setpriv --reuid rootless --regid rootless --init-groups env HOME=/home/rootless USER=rootless \
		XDG_RUNTIME_DIR="$runtime" "$@"
}
