#!/usr/bin/env bash
# sglang-router (PyPI, the predecessor of smg) before several `ibid serve`: sglang_router.sh [URL ...], default: two
# servers of this machine. Arguments after -- go to the router.
#
# Version 0.3.2 removes fields that it does not know from the body, `user` and `cache_salt` among them: users and salts
# are not separated behind it. Separate users by API keys, or run the servers with --namespace-by-user, which refuses
# requests without a user. docs/several_machines.md has the measurements.
set -euo pipefail

urls=()
while (($#)) && [[ $1 != -- ]]; do
  urls+=("$1")
  shift
done
shift $(($# > 0))
((${#urls[@]})) || urls=(http://127.0.0.1:8081 http://127.0.0.1:8082)

# By default all conversations that share a long system message go to one server until it has 64 requests more than the
# others, and a server that failed is not used again for a minute after it is well.
exec "${PYTHON:-python3}" -m sglang_router.launch_router --host 127.0.0.1 --port "${PORT:-8080}" \
  --prometheus-host 127.0.0.1 --prometheus-port "${METRICS_PORT:-29000}" \
  --worker-urls "${urls[@]}" --policy cache_aware --balance-abs-threshold 3 --balance-rel-threshold 1.1 \
  --health-check-endpoint /ready --health-check-interval-secs 1 --health-success-threshold 1 \
  --cb-failure-threshold 3 --cb-timeout-duration-secs 2 --cb-success-threshold 1 \
  --request-id-headers x-request-id "$@"
