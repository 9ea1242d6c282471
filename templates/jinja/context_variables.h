// ContextVariables: the variables that a template did not set itself. The messages, what the caller passed,
// what the model's files define, and the functions that every template has. Each is made when it is first
// looked up.
#pragma once

#include <optional>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/state.h"

namespace ibid::jinja {

class Program;
struct RunInput;

class ContextVariables {
 public:
  // All three must outlive it.
  ContextVariables(const Program& program, const RunInput& input, RenderState& state);

  // Undefined where there is none of this name.
  Value find(Symbol symbol);

 private:
  const Program& program_;
  const RunInput& input_;
  RenderState& state_;
  std::vector<std::optional<Value>> known_;  // those that were looked up, by symbol
};

}  // namespace ibid::jinja
