# What ./demo and ./test share: missing packages, and what an earlier run had to leave behind.
# shellcheck shell=bash

# sudo leaves the toolchain of its caller out of the path, and rustup under another home.
if ! command -v cargo > /dev/null; then
    home=$(getent passwd "${SUDO_USER:-$(id -un)}" | cut -d: -f6)
    if [ -x "$home/.cargo/bin/cargo" ]; then
        export PATH=$PATH:$home/.cargo/bin RUSTUP_HOME=${RUSTUP_HOME:-$home/.rustup}
    fi
fi

# Installs the Debian packages of the commands that are missing, each COMMAND or COMMAND:PACKAGE;
# where that cannot be done, says which are missing and returns 1.
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
    export DEBIAN_FRONTEND=noninteractive
    if ! { apt-get update -qq && apt-get install -qq -y --no-install-recommends "${packages[@]}"; } \
        > /dev/null < /dev/null; then
        echo "Could not install ${packages[*]}"
        return 1
    fi
}

# Removes network namespaces named PREFIX<pid>-... whose process was killed before it could,
# and ends what still runs in them.
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
