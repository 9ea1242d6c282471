// Runs another program and waits for it: no shell, so no quoting.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace ibid {

struct ChildResult {
  int exit_status = 0;      // 128 + signal when it was killed
  std::string last_lines;   // the end of what it wrote to standard error, at most 4 KiB
};

// argv[0] is looked up in PATH. Its standard output goes to our standard error; its standard error is
// passed on to ours as well when `show`, and kept either way. Standard input is empty.
// Error: kIo when the program cannot be started.
Result<ChildResult> run_child(const std::vector<std::string>& argv, bool show);

}  // namespace ibid
