// for_each_json_line(): the loop of the commands that answer each JSON line with a JSON line.
#pragma once

#include <functional>

#include "base/json_fwd.h"
#include "base/result.h"

namespace ibid {

// Reads standard input and writes `answer(line)` for each non-empty line, in order. Stops with an error, which has the
// line number, at a line that is not a JSON object, and at an error of answer().
Status for_each_json_line(const std::function<Result<Json>(const Json&)>& answer);

}  // namespace ibid
