# Shared by ./demo and ./test: installs missing packages and Rust, and cleans up after an earlier killed run.
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

# Installs a C linker, and Rust where there is none or an old one: the distribution's if that is new enough, else by
# rustup. Returns 1 after saying what to run if neither can be had.
install_toolchain() {
    local least package candidate work
    install_missing cc:build-essential || return 1
    least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    is_at_least "$least" "$(cargo --version 2> /dev/null | cut -d ' ' -f 2)" && return 0

    if [ "$(id -u)" = 0 ]; then
        if command -v apt-get > /dev/null && apt-get update -qq; then
            # Debian's stable releases have a newer Rust for browsers.
            for package in cargo cargo-web; do
                candidate=$(apt-cache policy "$package" | sed -n 's/^ *Candidate: //p')
                if is_at_least "$least" "$candidate"; then
                    echo "Installing Rust $candidate from the distribution"
                    install_without_services "$package" > /dev/null < /dev/null && return 0
                fi
            done
        fi
        install_missing curl update-ca-certificates:ca-certificates || return 1
        echo "Installing Rust by rustup in ${CARGO_HOME:-$HOME/.cargo}"
        work=$(mktemp -d)
        if curl --silent --show-error --fail --location --output "$work/rustup-init" \
            "https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu/rustup-init" &&
            chmod +x "$work/rustup-init" &&
            "$work/rustup-init" -y -q --no-modify-path --profile minimal --component clippy,rustfmt > /dev/null; then
            rm -r "$work"
            export PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
            return 0
        fi
        rm -r "$work"
    fi
    echo "Rust $least or newer is missing: curl -sSf https://sh.rustup.rs | sh -s -- -y && . ~/.cargo/env"
    return 1
}

# Whether a version, which may be empty or "(none)", is not below another.
is_at_least() {
    case $2 in [0-9]*) printf '%s\n' "$1" "$2" | sort --version-sort --check=quiet ;; *) return 1 ;; esac
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
