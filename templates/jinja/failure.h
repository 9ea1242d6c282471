// Failure: how the engine's own functions report that a template cannot go on. It is thrown and caught
// inside jinja/ only: compile() and run() turn it into a Status, so nothing throws across the module's
// border. (Every operator, filter and method of a template can fail; a Result from each would bury the
// semantics.)
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace ibid::jinja {

struct Failure {
  ErrorCode code;
  std::string message;
};

// An operation that Jinja or Python refuses.
[[noreturn]] inline void fail(std::string message) {
  throw Failure{ErrorCode::kTemplateError, std::move(message)};
}

// A budget is used up; `message` names it.
[[noreturn]] inline void fail_budget(std::string message) {
  throw Failure{ErrorCode::kTemplateBudget, std::move(message)};
}

[[noreturn]] inline void fail_syntax(int line, const std::string& message) {
  throw Failure{ErrorCode::kTemplateSyntax, "template line " + std::to_string(line) + ": " + message};
}

}  // namespace ibid::jinja
