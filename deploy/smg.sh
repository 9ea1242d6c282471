#!/usr/bin/env bash
# SGLang Model Gateway (PyPI: smg) before several `ibid serve`: smg.sh [URL ...], default: two servers of this machine.
# It reads the load of the servers from /v1/loads, and sends a conversation where its beginning was sent before.
# Arguments after -- go to smg. ROUTER: the Python package of the router, default: smg. docs/several_machines.md has the
# measurements.
set -euo pipefail

urls=()
while (($#)) && [[ $1 != -- ]]; do
  urls+=("$1")
  shift
done
shift $(($# > 0))
((${#urls[@]})) || urls=(http://127.0.0.1:8081 http://127.0.0.1:8082)

# Without the two thresholds, all conversations that share a long system message go to one server until it has 64
# requests more than the others. With 2 in place of 3, two of eight conversations at once changed their server. By
# default a server that failed is not used again for a minute after it is well.
exec "${PYTHON:-python3}" -m "${ROUTER:-smg}.launch_router" --host 127.0.0.1 --port "${PORT:-8080}" \
  --prometheus-host 127.0.0.1 --prometheus-port "${METRICS_PORT:-29000}" \
  --worker-urls "${urls[@]}" --policy cache_aware --balance-abs-threshold 3 --balance-rel-threshold 1.1 \
  --health-check-endpoint /ready --health-check-interval-secs 1 --health-success-threshold 1 \
  --cb-failure-threshold 3 --cb-timeout-duration-secs 2 --cb-success-threshold 1 \
  --request-id-headers x-request-id "$@"
