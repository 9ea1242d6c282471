#include "templates/jinja/globals.h"

#include "templates/jinja/arguments.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/cyclers.h"
#include "templates/jinja/evaluator.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/strftime.h"
#include "templates/jinja/value_text.h"

namespace ibid::jinja {
namespace {

Value global_range(Evaluator& in, const Arguments& args) {
  const Parameters parameters(args, "range", {"start", "stop", "step"}, 1);
  const bool only_stop = !parameters.has(1);
  const int64_t start = only_stop ? 0 : parameters.integer(0, 0);
  const int64_t stop = parameters.integer(only_stop ? 0 : 1, 0);
  const int64_t step = parameters.integer(2, 1);
  if (step == 0) fail("range() arg 3 must not be zero");
  Value range = Value::range(start, stop, step);
  const auto size = static_cast<uint64_t>(range.range_object().size());
  if (size > in.state().meter.max_range()) {
    fail_budget("Range too big. The sandbox blocks ranges larger than MAX_RANGE (" +
                std::to_string(in.state().meter.max_range()) + ") (budget: range)");
  }
  return range;
}

// dict(...): a dict or pairs, and keywords.
Value make_dict(Evaluator& in, const Arguments& args) {
  RenderState& state = in.state();
  if (args.positional.size() > 1)
    fail("dict expected at most 1 argument, got " + std::to_string(args.positional.size()));
  DictBuilder dict(state);
  if (!args.positional.empty()) {
    const Value& source = args.positional[0];
    if (source.is_dict()) {
      for (size_t i = 0; i < dict_size(source); ++i) {
        auto [key, value] = dict_entry(source, i);
        dict.set(key, std::move(value));
      }
    } else {
      for (const Value& pair : iterate(state, source)) {
        const Items items = iterate(state, pair);
        if (items.size() != 2)
          fail("dictionary update sequence element has length " + std::to_string(items.size()) +
               "; 2 is required");
        dict.set(items[0], items[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named)
    dict.set(Value::text(name, args.name_origin), resolve_messages(state, value));
  return dict.build();
}

Value global_namespace(Evaluator& in, const Arguments& args) {
  Attributes attributes;
  const auto put = [&](const std::string& name, const Value& value) {
    for (auto& [key, old] : attributes) {
      if (key == name) {
        old = value;
        return;
      }
    }
    attributes.emplace_back(name, value);
  };
  if (!args.positional.empty()) {
    const Value dict = make_dict(in, {args.positional, {}, TextOrigin::kTemplate});
    for (const auto& [key, value] : dict.dict_object().entries) put(str(in.state(), key).bytes(), value);
  }
  // Messages stay a view here: an attribute is as good as a variable.
  for (const auto& [name, value] : args.named) put(name, value);
  return in.make_namespace(std::move(attributes));
}

Value global_raise(Evaluator& in, const Arguments& args) {
  const Parameters parameters(args, "raise_exception", {"message"}, 1);
  throw Failure{ErrorCode::kTemplateRaise, str(in.state(), parameters.at(0)).bytes()};
}

Value global_lipsum(Evaluator&, const Arguments&) {
  fail("lipsum() is not supported: a prompt must not depend on chance");
}

Value global_strftime(Evaluator& in, const Arguments& args) {
  const Parameters parameters(args, "strftime_now", {"fmt"}, 1);
  const MarkedText& format = parameters.string(0);
  return Value::text(format_time(in.state(), in.now(), format.bytes()), format.safe_origin());
}

}  // namespace

Value dict_from_keys(Evaluator& in, const Arguments& args) {
  const Parameters parameters(args, "fromkeys", {"iterable", "value"}, 1);
  const Value value = resolve_messages(in.state(), parameters.value_or(1, Value::none()));
  DictBuilder dict(in.state());
  for (const Value& key : iterate(in.state(), parameters.at(0))) {
    in.state().meter.create(sizeof(Entry));
    dict.set(key, value);
  }
  return dict.build();
}

Function find_global(std::string_view name) {
  if (name == "range") return global_range;
  if (name == "dict") return make_dict;
  if (name == "namespace") return global_namespace;
  if (name == "cycler") return make_cycler;
  if (name == "joiner") return make_joiner;
  if (name == "lipsum") return global_lipsum;
  if (name == "raise_exception") return global_raise;
  if (name == "strftime_now") return global_strftime;
  return nullptr;
}

}  // namespace ibid::jinja
