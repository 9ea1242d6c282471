#include "templates/jinja/context_variables.h"

#include "base/json_limits.h"
#include "templates/jinja/globals.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/program.h"

namespace ibid::jinja {
namespace {

// Names of variables whose text is the model's own (bos_token, eos_token, ...): it may become control tokens.
// What else a caller passes may come from a request, so it is input.
bool is_token_variable(std::string_view name) {
  return name.ends_with("_token") || name.ends_with("_tokens");
}

}  // namespace

ContextVariables::ContextVariables(const Program& program, const RunInput& input, RenderState& state)
    : program_(program), input_(input), state_(state), known_(program.n_names()) {}

Value ContextVariables::find(Symbol symbol) {
  const std::string& name = program_.name(symbol);
  if (input_.messages != nullptr) {
    if (name == "messages") return Value::messages(0);
    if (name == "add_generation_prompt") {
      state_.reads.generation_prompt = true;
      return Value::boolean(input_.generation_prompt);
    }
  }
  std::optional<Value>& cached = known_[symbol];
  if (cached) return *cached;
  JsonSource source;
  if (const auto it = input_.variables->find(name); it != input_.variables->end()) {
    source.origin = is_token_variable(name) ? TextOrigin::kTemplate : TextOrigin::kInput;
    cached = Value::json(*it, source);
  } else if (input_.defaults != nullptr && input_.defaults->contains(name)) {
    source.origin = TextOrigin::kTemplate;
    cached = Value::json(input_.defaults->find(name).value(), source);
  } else if (input_.messages != nullptr && (name == "tools" || name == "documents")) {
    cached = Value::none();  // defined, as transformers passes them
  } else if (const Function function = find_global(name); function != nullptr) {
    cached = Value::function(name, function);
  } else {
    cached = Value::undefined("'" + name + "' is undefined");
  }
  return *cached;
}

}  // namespace ibid::jinja
