#include "apps/command.h"

#include <cstdio>

#include "apps/terminal_text.h"

namespace ibid {

int report(const Status& status) {
  std::fprintf(stderr, "ibid: %s\n", without_controls(status.message()).c_str());
  return 1;
}

Status cannot_write() { return {ErrorCode::kIo, "standard output cannot be written to"}; }

}  // namespace ibid
