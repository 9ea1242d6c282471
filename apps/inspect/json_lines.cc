#include "apps/inspect/json_lines.h"

#include <cstdio>
#include <iostream>
#include <string>

namespace ibid {

Status for_each_json_line(const std::function<Result<Json>(const Json&)>& answer) {
  std::string text;
  for (size_t number = 1; std::getline(std::cin, text); ++number) {
    if (text.empty()) continue;
    const std::string what = "standard input, line " + std::to_string(number);
    TRY_ASSIGN(const Json line, parse_json(text, what));
    if (!line.is_object()) return {ErrorCode::kInvalidArgument, what + ": wanted a JSON object"};
    Result<Json> reply = answer(line);
    if (!reply.ok()) return {reply.status().code(), what + ": " + reply.status().message()};
    std::puts(json_to_string(*reply).c_str());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace ibid
