#!/usr/bin/env bash
# Two servers of this machine behind HAProxy, to try out: try_two.sh [MODEL]. Ctrl-C ends all. They share keys and values
# through a redis-server if one is installed.
# http://127.0.0.1:8080 is HAProxy, the servers are on 8081 and 8082; the logs are in the folder that it prints.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v haproxy >/dev/null || PATH=$PATH:/usr/sbin
command -v haproxy >/dev/null || { echo "haproxy is not installed: apt-get install haproxy" >&2; exit 1; }
logs=$(mktemp -d "${TMPDIR:-/tmp}/ibid_two_XXXXXX")
children=()
trap 'kill "${children[@]}" 2>/dev/null || true; wait' EXIT

share=()
if redis=$(command -v redis-server || command -v valkey-server); then
  "$redis" --port 0 --unixsocket "$logs/redis.sock" --unixsocketperm 700 --dir "$logs" --save '' --appendonly no \
    --maxmemory 1gb --maxmemory-policy allkeys-lru >"$logs/redis.log" 2>&1 &
  children+=($!)
  until [[ -S "$logs/redis.sock" ]]; do
    kill -0 $! 2>/dev/null || { cat "$logs/redis.log" >&2; exit 1; }
    sleep 0.1
  done
  share=(--cache-server "unix:$logs/redis.sock")
else
  echo "no redis-server: the servers share no keys and values (apt-get install redis-server)" >&2
fi

ibid=(./run serve)
[[ ! -x build/release/apps/ibid ]] || ibid=(build/release/apps/ibid serve --fetch)
threads=$(($(nproc) > 1 ? $(nproc) / 2 : 1))
for number in 1 2; do
  "${ibid[@]}" ${1:+"$1"} --port "808$number" --threads "$threads" --log "${share[@]}" 2>"$logs/ibid$number.log" &
  children+=($!)
  until grep -qs '^ibid: ready$' "$logs/ibid$number.log"; do
    kill -0 $! 2>/dev/null || { cat "$logs/ibid$number.log" >&2; exit 1; }
    sleep 0.2
  done
done
haproxy -f deploy/haproxy.cfg >"$logs/haproxy.log" 2>&1 &
children+=($!)
echo "http://127.0.0.1:8080 is HAProxy before 127.0.0.1:8081 and 127.0.0.1:8082; logs in $logs; Ctrl-C ends all" >&2
wait -n
