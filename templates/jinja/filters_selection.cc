// map, select, reject and their kin: filters that apply another filter or test to each item. Their results
// are generators, as in Jinja: they can be iterated once, and have no length.
#include "templates/jinja/attribute_getter.h"
#include "templates/jinja/collections.h"
#include "templates/jinja/failure.h"
#include "templates/jinja/filters.h"
#include "templates/jinja/operators.h"

namespace ibid::jinja {
namespace {

// `args` without its first `n` positional ones.
Arguments rest(const Arguments& args, size_t n) {
  Arguments out;
  out.positional.assign(args.positional.begin() + static_cast<ptrdiff_t>(n), args.positional.end());
  out.named = args.named;
  out.name_origin = args.name_origin;
  return out;
}

std::string name_of(const Value& value) {
  if (!value.is_string())
    fail("the name of a filter or test must be a string, not " + std::string(type_name(value)));
  return value.bytes();
}

// Jinja looks at nothing that is false: None has no items.
Items items_of(Evaluator& in, const Value& subject) {
  return truthy(in.state(), subject) ? iterate(in.state(), subject) : Items();
}

Value do_map(Evaluator& in, const Value& subject, const Arguments& args) {
  Items items = items_of(in, subject);
  if (args.positional.empty()) {
    const Value* attribute = nullptr;
    std::optional<Value> fallback;
    for (const auto& [name, value] : args.named) {
      if (name == "attribute") {
        attribute = &value;
      } else if (name == "default") {
        fallback = value;
      } else {
        fail("Unexpected keyword argument '" + name + "'");
      }
    }
    if (attribute == nullptr) fail("map requires a filter argument");
    AttributeGetter getter(in, attribute, false, fallback);
    for (Value& item : items) item = getter(item);
  } else {
    const std::string name = name_of(args.positional[0]);
    const Arguments arguments = rest(args, 1);
    for (Value& item : items) item = in.apply_filter(name, item, arguments);
  }
  return Value::sequence(SequenceStyle::kGenerator, std::move(items));
}

// by_attribute: the test looks at an attribute of the item. wanted: what its answer must be.
Value choose(Evaluator& in, const Value& subject, const Arguments& args, bool by_attribute, bool wanted) {
  const size_t skip = by_attribute ? 1 : 0;
  if (args.positional.size() < skip) fail("Missing parameter for attribute name");
  AttributeGetter getter(in, by_attribute ? &args.positional[0] : nullptr);
  const bool has_test = args.positional.size() > skip;
  const std::string test = has_test ? name_of(args.positional[skip]) : "";
  const Arguments arguments = rest(args, std::min(skip + 1, args.positional.size()));
  Items chosen;
  for (const Value& item : items_of(in, subject)) {
    in.state().meter.step();
    const Value value = getter(item);
    const bool answer = has_test ? in.apply_test(test, value, arguments) : truthy(in.state(), value);
    if (answer == wanted) chosen.push_back(item);
  }
  return Value::sequence(SequenceStyle::kGenerator, std::move(chosen));
}

Value do_select(Evaluator& in, const Value& s, const Arguments& args) {
  return choose(in, s, args, false, true);
}
Value do_reject(Evaluator& in, const Value& s, const Arguments& args) {
  return choose(in, s, args, false, false);
}
Value do_selectattr(Evaluator& in, const Value& s, const Arguments& args) {
  return choose(in, s, args, true, true);
}
Value do_rejectattr(Evaluator& in, const Value& s, const Arguments& args) {
  return choose(in, s, args, true, false);
}

constexpr NamedFilter kSelectionFilters[] = {
    {"map", do_map},
    {"select", do_select},
    {"reject", do_reject},
    {"selectattr", do_selectattr},
    {"rejectattr", do_rejectattr},
};

}  // namespace

Filter find_selection_filter(std::string_view name) {
  for (const NamedFilter& entry : kSelectionFilters) {
    if (entry.name == name) return entry.filter;
  }
  return nullptr;
}

}  // namespace ibid::jinja
