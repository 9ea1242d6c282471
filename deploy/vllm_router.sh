#!/usr/bin/env bash
# vLLM's router (PyPI: vllm-router) before several `ibid serve`, with the policy kv_aware: it knows from events which
# server has which blocks. vllm_router.sh [URL=EVENTS=REPLAY ...], default: two servers of this machine, which run with
#
#   ibid serve --port 8081 --kv-events tcp://127.0.0.1:5557 --kv-events-replay tcp://127.0.0.1:5567
#   ibid serve --port 8082 --kv-events tcp://127.0.0.1:5558 --kv-events-replay tcp://127.0.0.1:5568
#
# Arguments after -- go to the router. If the servers have API keys, add --kv-events-private-tokens: the router can
# predict only blocks whose tokens it knows. docs/several_machines.md has the measurements.
set -euo pipefail

servers=()
while (($#)) && [[ $1 != -- ]]; do
  servers+=("$1")
  shift
done
shift $(($# > 0))
((${#servers[@]})) || servers=(http://127.0.0.1:8081=tcp://127.0.0.1:5557=tcp://127.0.0.1:5567
  http://127.0.0.1:8082=tcp://127.0.0.1:5558=tcp://127.0.0.1:5568)

urls=() sources=()
for server in "${servers[@]}"; do
  IFS== read -r url events replay <<<"$server"
  urls+=("$url")
  sources+=(--kv-event-source "$url=$events" --kv-event-replay-source "$url=$replay")
done
python=${PYTHON:-python3}
model=$("$python" -c 'import json, sys, urllib.request
print(json.load(urllib.request.urlopen(sys.argv[1] + "/v1/models"))["data"][0]["id"])' "${urls[0]}")

# By default a server that failed is not used again for a minute after it is well.
exec "$python" -m vllm_router.launch_router --host 127.0.0.1 --port "${PORT:-8080}" \
  --prometheus-host 127.0.0.1 --prometheus-port "${METRICS_PORT:-29000}" \
  --worker-urls "${urls[@]}" --policy kv_aware "${sources[@]}" --kv-event-block-size 64 --kv-event-model "$model" \
  --kv-aware-session-affinity-ttl-secs 3600 \
  --health-check-endpoint /ready --health-check-interval-secs 1 --health-success-threshold 1 \
  --cb-failure-threshold 3 --cb-timeout-duration-secs 2 --cb-success-threshold 1 \
  --request-id-headers x-request-id "$@"
