#include "apps/command_line/command.h"

#include "apps/terminal/remark.h"

namespace ibid {

int report(const Status& status) {
  remark("ibid: " + status.message());
  return 1;
}

Status cannot_write() { return {ErrorCode::kIo, "standard output cannot be written to"}; }

}  // namespace ibid
