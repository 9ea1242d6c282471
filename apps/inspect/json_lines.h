// The tools that answer one JSON line with one JSON line.
#pragma once

#include <functional>

#include "base/json_limits.h"
#include "base/result.h"

namespace ibid {

// Reads standard input line by line, and writes `answer(line)` for each non-empty one, in order. A line that
// is not JSON ends the run with an error that names its number.
Status for_each_json_line(const std::function<Result<Json>(const Json& line)>& answer);

}  // namespace ibid
