#include "apps/serve/process_limits.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include <string>

namespace ibid::serve {

namespace {

// Models, cache directories, listeners, and connections on their way out.
constexpr size_t kOtherFiles = 128;

}  // namespace

void forbid_core_dumps() {
  prctl(PR_SET_DUMPABLE, 0);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

Status make_room_for_connections(size_t n_connections) {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return {};
  if (files.rlim_cur < files.rlim_max) {
    rlimit raised = files;
    raised.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) files = raised;
  }
  const size_t wanted = n_connections + kOtherFiles;
  if (files.rlim_cur == RLIM_INFINITY || files.rlim_cur >= wanted) return {};
  const size_t possible = files.rlim_cur > kOtherFiles ? files.rlim_cur - kOtherFiles : 1;
  return {ErrorCode::kLimitExceeded,
          std::to_string(n_connections) + " connections need " + std::to_string(wanted) +
              " open files, and this process may have " + std::to_string(files.rlim_cur) + "; --max-connections " +
              std::to_string(possible) + ", or a higher limit (ulimit -n)"};
}

}  // namespace ibid::serve
