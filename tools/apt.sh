#!/bin/sh
# Installs Debian packages without starting any service: tools/apt.sh PACKAGE...
# Exit 2, with the command to run, where this user may not install.
set -eu

if ! command -v apt-get >/dev/null; then
    echo "missing: $*; this system has no apt-get, install the like of these packages by hand" >&2
    exit 2
fi
if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        exec sudo -n sh "$0" "$@"
    fi
    echo "missing: $*; run: sudo apt-get install --no-install-recommends $*" >&2
    exit 2
fi

# A freshly installed Prometheus or PostgreSQL would start at once, Prometheus on every interface. Debian asks this
# file before any start; 101 means no.
policy=/usr/sbin/policy-rc.d
kept=$policy.before-gpu-minutes
mark='# gpu-minutes: no service starts while packages are installed'

restore_policy() {
    rm -f "$policy"
    if [ -e "$kept" ]; then mv "$kept" "$policy"; fi
}

exec 9>/var/lock/gpu-minutes-apt.lock
flock 9
# A run that was killed left its own policy behind; that one is not worth keeping.
if grep -qsF "$mark" "$policy"; then restore_policy; fi
if [ -e "$policy" ]; then mv "$policy" "$kept"; fi
trap restore_policy EXIT
trap 'exit 130' INT TERM HUP
printf '#!/bin/sh\n%s\nexit 101\n' "$mark" >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
echo "installing: $*"
apt-get -o DPkg::Lock::Timeout=300 -q update
apt-get -o DPkg::Lock::Timeout=300 -q install -y --no-install-recommends "$@" </dev/null
