#include "templates/jinja/cyclers.h"

#include <utility>

#include "templates/jinja/arguments.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/failure.h"

namespace ibid::jinja {
namespace {

constexpr std::string_view kCycler = "cycler()", kJoiner = "joiner()";

bool is_kind(const RenderState& state, const Value& value, std::string_view kind) {
  if (!value.is(Kind::kNamespace)) return false;
  const Attributes& attributes = *state.namespaces[value.index()];
  return !attributes.empty() && attributes[0].first == kind;
}

// The attribute of a cycler or joiner with this number.
const Value& field(const RenderState& state, const Value& value, size_t i) {
  return (*state.namespaces[value.index()])[i].second;
}

Value current(const RenderState& state, const Value& cycler) {
  return field(state, cycler, 1).sequence_object().items[static_cast<size_t>(field(state, cycler, 2).as_int())];
}

Value next(Evaluator& in, const Value& cycler, const Arguments& args) {
  const Parameters parameters(args, "next", {});
  Value item = current(in.state(), cycler);
  const auto n = static_cast<int64_t>(field(in.state(), cycler, 1).sequence_object().items.size());
  in.state().set_attribute(cycler.index(), "pos", Value::integer((field(in.state(), cycler, 2).as_int() + 1) % n));
  return item;
}

Value reset(Evaluator& in, const Value& cycler, const Arguments& args) {
  const Parameters parameters(args, "reset", {});
  in.state().set_attribute(cycler.index(), "pos", Value::integer(0));
  return Value::none();
}

}  // namespace

Value make_cycler(Evaluator& in, const Arguments& args) {
  if (!args.named.empty()) fail("cycler() got an unexpected keyword argument '" + args.named[0].first + "'");
  if (args.positional.empty()) fail("at least one item has to be provided");
  Items items;
  for (const Value& item : args.positional) items.push_back(resolve_messages(in.state(), item));
  return in.make_namespace({{std::string(kCycler), Value::none()},
                            {"items", Value::tuple(std::move(items))},
                            {"pos", Value::integer(0)}});
}

Value make_joiner(Evaluator& in, const Arguments& args) {
  const Parameters parameters(args, "joiner", {"sep"});
  return in.make_namespace({{std::string(kJoiner), Value::none()},
                            {"sep", parameters.value_or(0, Value::text(", "))},
                            {"used", Value::boolean(false)}});
}

bool is_cycler(const RenderState& state, const Value& value) { return is_kind(state, value, kCycler); }
bool is_joiner(const RenderState& state, const Value& value) { return is_kind(state, value, kJoiner); }

std::optional<Value> cycler_attribute(const RenderState& state, const Value& value, std::string_view name) {
  if (!is_cycler(state, value)) return std::nullopt;
  if (name == "current") return current(state, value);
  if (name == "next") return Value::method(value, next);
  if (name == "reset") return Value::method(value, reset);
  return std::nullopt;
}

Value call_joiner(RenderState& state, const Value& joiner, const Arguments& args) {
  const Parameters parameters(args, "joiner", {});
  if (field(state, joiner, 2).as_bool()) return field(state, joiner, 1);
  state.set_attribute(joiner.index(), "used", Value::boolean(true));
  return Value::text("");
}

}  // namespace ibid::jinja
