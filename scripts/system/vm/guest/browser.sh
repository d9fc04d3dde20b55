# shellcheck shell=sh
# Functions of the browser scenarios.

results=/run/relying-party.log
start_relying_party() {
    python3 /scenario/relying-party.py /scenario/relying-party.html >$results 2>&1 &
    wait_for python3 -S -c 'import socket; socket.create_connection(("127.0.0.1", 8080))'
}
# browse CASE STEPS COMMAND…: opens the page with the browser as Ada, and waits until the page is done.
browse() {
    case=$1 url="http://localhost:8080/?case=$1&steps=$2"
    shift 2
    done=$(grep -c '^done' $results)
    began=$(milliseconds)
    as ada "$@" "$url" >/run/browser.log 2>&1 &
    browser=$!
    tries=0
    until [ "$(grep -c '^done' $results)" -gt "$done" ]; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || { failed "the browser did not finish: $(tail -n 5 /run/browser.log)" && break; }
        sleep 1
    done
    note "the browser took $(($(milliseconds) - began)) ms"
    # The next browser needs the profile.
    pkill -u ada -f "case=$case&steps="
    wait $browser
    cp $results $output
    sed "s/^/LATCHKEY note $scenario: /" $results
}
