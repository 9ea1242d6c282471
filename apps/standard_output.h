// Standard output for answers: what a terminal must not obey is left out, and a reader that is gone is no error of
// ours.
#pragma once

#include <string_view>

#include "base/result.h"

namespace ibid {

class StandardOutput {
 public:
  StandardOutput();

  // Writes and flushes. After a failure it does nothing.
  void write(std::string_view text);
  bool ok() const { return error_ == 0; }
  // What to end the program with when writing failed: kReaderGone in silence where whoever read it is gone, else the
  // error. REQUIRES: !ok().
  Result<int> exit_status() const;

 private:
  const bool terminal_;
  int error_ = 0;  // errno
};

}  // namespace ibid
