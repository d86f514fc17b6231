# Packages of a bare Debian or Ubuntu machine. ops/test and ops/demo source this file.
#
#     packages run     what ./ops/demo needs: Python with venv
#     packages test    what the tests need: also Java, Maven, Chromium, libatomic, Node, Prometheus and Alertmanager
#
# What the machine lacks is installed with apt-get, by root or with sudo. If nothing is lacking, or there is no apt-get,
# nothing is done.

packages() {
    local lacking=() names=() root=() name jdk
    command -v python3 > /dev/null || lacking+=(python3)
    python3 -c 'import ensurepip, venv' 2> /dev/null || lacking+=(python3-venv)
    if [[ "$1" == test ]]; then
        # Asked for by name: what Maven alone would bring is too old on some releases.
        [[ "$(java -version 2>&1)" =~ version\ \"(1[7-9]|[2-9][0-9]) ]] || lacking+=(jdk)
        command -v mvn > /dev/null || lacking+=(maven)
        command -v chromium > /dev/null || lacking+=(chromium)
        # The Node that Playwright brings needs it, and no other package here does.
        [[ "$(PATH="$PATH:/sbin" ldconfig -p)" == *libatomic.so.1* ]] || lacking+=(libatomic1)
        command -v node > /dev/null || lacking+=(nodejs)
        command -v npm > /dev/null || lacking+=(npm)
        command -v promtool > /dev/null || lacking+=(prometheus)
        command -v prometheus-alertmanager alertmanager > /dev/null || lacking+=(prometheus-alertmanager)
    fi
    ((${#lacking[@]})) || return 0
    # Without it, the script that needs a missing program reports it.
    command -v apt-get > /dev/null || return 0
    [[ "$(id -u)" == 0 ]] || root=(sudo)
    echo "installing with apt-get: ${lacking[*]} ..." >&2
    _apt() { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" >&2; }
    _apt update
    for name in "${lacking[@]}"; do
        if [[ "$name" == jdk ]]; then
            for jdk in openjdk-17-jdk-headless openjdk-21-jdk-headless default-jdk-headless; do
                # "Candidate: (none)", or nothing at all, where the release has no such package.
                if [[ "$(apt-cache policy "$jdk")" =~ Candidate:\ [^\(] ]]; then
                    break
                fi
            done
            name="$jdk"
        fi
        names+=("$name")
    done
    # The packages of Prometheus would start services: where Debian asks whether it may, the answer is no.
    local policy=/usr/sbin/policy-rc.d ours=
    if [[ ! -e "$policy" ]]; then
        ours=yes
        printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$policy" > /dev/null
        "${root[@]}" chmod 755 "$policy"
    fi
    local code=0
    _apt install -y --no-install-recommends "${names[@]}" || code=$?
    [[ -z "$ours" ]] || "${root[@]}" rm -f "$policy"
    return "$code"
}
