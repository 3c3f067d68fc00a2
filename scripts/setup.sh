# Shared by ./demo and ./test: installs missing packages, and cleans up after an earlier killed run.
# shellcheck shell=bash

# sudo leaves the toolchain of its caller out of the path, and rustup under another home.
if ! command -v cargo > /dev/null; then
    home=$(getent passwd "${SUDO_USER:-$(id -un)}" | cut -d: -f6)
    if [ -x "$home/.cargo/bin/cargo" ]; then
        export PATH=$PATH:$home/.cargo/bin RUSTUP_HOME=${RUSTUP_HOME:-$home/.rustup}
    fi
fi

# Installs the Debian packages of missing commands, each given as COMMAND or COMMAND:PACKAGE; if that fails, lists the
# missing commands and returns 1.
install_missing() {
    local packages=() pair
    for pair in "$@"; do
        PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" > /dev/null || packages+=("${pair##*:}")
    done
    [ ${#packages[@]} = 0 ] && return 0

    if [ "$(id -u)" != 0 ] || ! command -v apt-get > /dev/null; then
        echo "Missing: ${packages[*]}. On Debian or Ubuntu: sudo apt-get install ${packages[*]}"
        return 1
    fi
    echo "Installing ${packages[*]}"
    if ! install_without_services "${packages[@]}" > /dev/null < /dev/null; then
        echo "Could not install ${packages[*]}"
        return 1
    fi
}

# A routing daemon is wanted in the namespaces of tests, not here: what is installed starts nothing,
# nor at the next boot. Who has a policy of their own keeps it.
install_without_services() (
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' > "$policy"
        chmod 755 "$policy"
    fi
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@" || exit 1
    # A service is called as its package; most packages have none.
    for package in "$@"; do
        systemctl disable --quiet --now "$package" 2> /dev/null || true
    done
)

# Removes network namespaces named PREFIX<pid>-... of killed processes, and ends all programs still running inside.
remove_dead_namespaces() {
    [ "$(id -u)" = 0 ] && command -v ip > /dev/null || return 0
    local name pid
    for name in $(ip netns list | cut -d' ' -f1 | grep -E "^$1[0-9]+-"); do
        pid=${name#"$1"}
        kill -0 "${pid%%-*}" 2> /dev/null && continue
        for pid in $(ip netns pids "$name"); do
            kill "$pid" 2> /dev/null
        done
        ip netns delete "$name" 2> /dev/null
    done
}
