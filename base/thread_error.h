// The error for a thread that the system did not start.
#pragma once

#include <string>
#include <system_error>

#include "base/result.h"

namespace ibid {

// Returns kOutOfMemory, with advice. `what` names the thread.
inline Status no_thread(const std::string& what, const std::error_code& error) {
  return {ErrorCode::kOutOfMemory,
          "cannot start " + what + ": " + error.message() +
              "; raise the limit of processes or memory of this user or container (ulimit -u, ulimit -v, pids.max), or "
              "use fewer threads (--threads)"};
}

}  // namespace ibid
