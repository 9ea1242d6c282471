#!/usr/bin/env bash
# sglang-router (PyPI, the predecessor of smg) before several `ibid serve`: sglang_router.sh [URL ...], default: two
# servers of this machine. Arguments after -- go to the router, which has the options of smg.
#
# Version 0.3.2 removes fields that it does not know from the body, `user` and `cache_salt` among them: users and salts
# are not separated behind it. Separate users by API keys, or run the servers with --namespace-by-user, which refuses
# requests without a user. docs/several_machines.md has the measurements.
set -euo pipefail

ROUTER=sglang_router exec "$(dirname "${BASH_SOURCE[0]}")/smg.sh" "$@"
