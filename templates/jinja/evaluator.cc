#include "templates/jinja/evaluator.h"

#include <algorithm>
#include <optional>

#include "base/json_limits.h"
#include "templates/jinja/builtins.h"
#include "templates/jinja/executor.h"
#include "templates/jinja/interpreter.h"
#include "templates/jinja/operations.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {
namespace {

std::optional<Value> macro_attribute(const MacroNode& macro, std::string_view name) {
  if (name == "name") return Value::text(macro.name);
  if (name == "catch_kwargs") return Value::boolean(macro.uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(macro.uses_varargs);
  if (name == "caller") return Value::boolean(macro.uses_caller);
  if (name != "arguments" && name != "explicit_caller") return std::nullopt;
  Items names;
  bool has_caller = false;
  for (const auto& [parameter, symbol] : macro.parameters) {
    names.push_back(Value::text(parameter));
    has_caller |= parameter == "caller";
  }
  return name == "arguments" ? Value::tuple(std::move(names)) : Value::boolean(has_caller);
}

}  // namespace

Evaluator::Evaluator(const Program& program, const RunInput& input, RenderState& state, Executor& executor)
    : state_(state), now_(input.now), variables_(program, input, state), executor_(executor) {}

Value Evaluator::evaluate_name(Symbol symbol, const FramePtr& frame) {
  for (const Frame* scope = frame.get(); scope != nullptr; scope = scope->parent.get()) {
    if (const Value* value = scope->find(symbol)) return *value;
  }
  return variables_.find(symbol);
}

Items Evaluator::evaluate_all(const std::vector<ExprPtr>& exprs, const FramePtr& frame) {
  state_.meter.create(exprs.size() * sizeof(Value));
  Items items;
  items.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) items.push_back(resolve_messages(state_, evaluate(*expr, frame)));
  return items;
}

Value Evaluator::evaluate_dict(const Expr& expr, const FramePtr& frame) {
  DictBuilder dict(state_);
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    const Value key = evaluate(*expr.children[i], frame);
    dict.set(key, resolve_messages(state_, evaluate(*expr.children[i + 1], frame)));
  }
  return dict.build();
}

Value Evaluator::evaluate_concat(const Expr& expr, const FramePtr& frame) {
  MarkedText text;
  for (const ExprPtr& child : expr.children) {
    const MarkedText piece = str(state_, evaluate(*child, frame));
    state_.meter.create(piece.size());
    text.append(piece);
  }
  state_.meter.check_string(text.size());
  return Value::string(std::move(text));
}

Value Evaluator::evaluate_compare(const Expr& expr, const FramePtr& frame) {
  Value left = evaluate(*expr.children[0], frame);
  for (size_t i = 0; i < expr.compare_ops.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1], frame);
    if (!compare(state_, expr.compare_ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::evaluate_slice(const Expr& expr, const FramePtr& frame) {
  const Value object = evaluate(*expr.children[0], frame);
  const auto bound = [&](size_t i) {
    return expr.children[i] == nullptr ? Value::none() : evaluate(*expr.children[i], frame);
  };
  const Value start = bound(1), stop = bound(2), step = bound(3);
  if (object.is_undefined()) fail(object.undefined_message());
  try {
    return slice(state_, object, start, stop, step);
  } catch (const Failure& failure) {
    if (failure.code != ErrorCode::kTemplateError || !expr.in_constant_output) throw;
    return no_attribute(object, "slice");
  }
}

Value Evaluator::evaluate(const Expr& expr, const FramePtr& frame) {
  const auto level = state_.meter.enter_node();
  state_.meter.step();
  const auto child = [&](size_t i) { return evaluate(*expr.children[i], frame); };
  switch (expr.kind) {
    case ExprKind::kConstant: return expr.constant;
    case ExprKind::kName: return evaluate_name(expr.symbol, frame);
    case ExprKind::kList: return Value::list(evaluate_all(expr.children, frame));
    case ExprKind::kTuple: return Value::tuple(evaluate_all(expr.children, frame));
    case ExprKind::kDict: return evaluate_dict(expr, frame);
    case ExprKind::kNot: return Value::boolean(!truthy(state_, child(0)));
    case ExprKind::kNegative: return negate(child(0));
    case ExprKind::kPositive: return plus(child(0));
    case ExprKind::kAnd: {
      Value left = child(0);
      return truthy(state_, left) ? child(1) : left;
    }
    case ExprKind::kOr: {
      Value left = child(0);
      return truthy(state_, left) ? left : child(1);
    }
    case ExprKind::kConcat: return evaluate_concat(expr, frame);
    case ExprKind::kCompare: return evaluate_compare(expr, frame);
    case ExprKind::kConditional:
      if (truthy(state_, child(0))) return child(1);
      if (expr.children[2] != nullptr) return child(2);
      return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
    case ExprKind::kAttribute: return attribute(child(0), expr.text);
    case ExprKind::kSubscript: {
      const Value object = child(0);
      return item(object, child(1));
    }
    case ExprKind::kSlice: return evaluate_slice(expr, frame);
    case ExprKind::kCall: return evaluate_call(expr, frame);
    case ExprKind::kFilter: return evaluate_filter(expr, child(0), frame);
    case ExprKind::kTest: return evaluate_test(expr, frame);
    case ExprKind::kNamespaceField: return attribute(evaluate_name(expr.symbol, frame), expr.text);
    default: {
      const Value left = resolve_messages(state_, child(0));
      return arithmetic(state_, expr.kind, left, resolve_messages(state_, child(1)));
    }
  }
}

Value Evaluator::attribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) fail(object.undefined_message());
  if (object.is(Kind::kLoop)) return loop_attribute(*this, object.loop_object(), name);
  if (object.is(Kind::kNamespace)) {
    for (const auto& [key, value] : *state_.namespaces[object.index()]) {
      if (key == name) return value;
    }
    if (auto value = cycler_attribute(state_, object, name)) return std::move(*value);
  }
  if (const Method method = find_method(object, name); method != nullptr) return Value::method(object, method);
  if (is_unsafe_attribute(object, name)) {
    return Value::undefined("access to attribute '" + name + "' of '" + std::string(type_name(object)) +
                            "' object is unsafe.");
  }
  if (object.is_style(SequenceStyle::kGroup) && (name == "grouper" || name == "list")) {
    return object.sequence_object().items[name == "list" ? 1 : 0];
  }
  if (object.is(Kind::kMacro)) {
    if (auto value = macro_attribute(*object.macro_object().node, name)) return std::move(*value);
  }
  if (object.is(Kind::kFunction) && object.function_object().name == "dict" && name == "fromkeys") {
    return Value::function("dict.fromkeys", find_global("dict.fromkeys"));
  }
  if (object.is_dict()) {
    if (auto value = dict_find(state_, object, name)) return std::move(*value);
  }
  return no_attribute(object, name);
}

Value Evaluator::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail(object.undefined_message());
  if (object.is_dict()) {
    const bool hashable = !key.is_dict() && !key.is_list() && !key.is(Kind::kMessages);
    if (hashable) {
      if (auto value = dict_find(state_, object, key)) return std::move(*value);
    }
  } else if (key.is_integral() && (object.is_string() || is_indexable(object) || object.is(Kind::kMessages))) {
    return indexed(state_, object, key);
  }
  if (!key.is_string()) {
    return Value::undefined("'" + object_name(object) + "' has no such element");
  }
  // If a subscript is a text and there is no such key or element, it denotes the attribute of that name.
  return attribute(object, key.bytes());
}

void Evaluator::assign(const Expr& target, Value value, const FramePtr& frame) {
  if (target.kind == ExprKind::kName) return frame->set(target.symbol, std::move(value));
  if (target.kind == ExprKind::kNamespaceField) return assign_field(target, std::move(value), frame);
  if (!is_iterable(value)) fail("cannot unpack non-iterable " + std::string(type_name(value)) + " object");
  const Items items = iterate(state_, value);
  const size_t wanted = target.children.size();
  if (items.size() > wanted) fail("too many values to unpack (expected " + std::to_string(wanted) + ")");
  if (items.size() < wanted) {
    fail("not enough values to unpack (expected " + std::to_string(wanted) + ", got " + std::to_string(items.size()) +
         ")");
  }
  for (size_t i = 0; i < wanted; ++i) assign(*target.children[i], items[i], frame);
}

void Evaluator::assign_field(const Expr& target, Value value, const FramePtr& frame) {
  const Value object = evaluate_name(target.symbol, frame);
  if (!object.is(Kind::kNamespace) || is_cycler(state_, object) || is_joiner(state_, object)) {
    fail("cannot assign attribute on non-namespace object");
  }
  if (holds_reference(value)) state_.namespace_escaped = true;
  state_.set_attribute(object.index(), target.text, std::move(value));
}

Value Evaluator::make_namespace(Attributes attributes) {
  state_.meter.create(sizeof(Attributes) + attributes.size() * sizeof(Value));
  state_.namespaces.push_back(std::make_shared<const Attributes>(std::move(attributes)));
  return Value::name_space(state_.namespaces.size() - 1);
}

Arguments Evaluator::evaluate_arguments(const CallArguments& args, const FramePtr& frame) {
  Arguments out;
  for (const ExprPtr& expr : args.positional) out.positional.push_back(evaluate(*expr, frame));
  for (const auto& [name, expr] : args.named) out.named.emplace_back(name, evaluate(*expr, frame));
  if (args.unpacked_list != nullptr) {
    for (Value& value : iterate(state_, evaluate(*args.unpacked_list, frame)))
      out.positional.push_back(std::move(value));
  }
  if (args.unpacked_dict != nullptr) {
    const Value dict = evaluate(*args.unpacked_dict, frame);
    out.name_origin = origin_of(dict);
    if (!dict.is_dict()) fail("argument after ** must be a mapping, not " + std::string(type_name(dict)));
    for (size_t i = 0; i < dict_size(dict); ++i) {
      auto [key, value] = dict_entry(dict, i);
      if (!key.is_string()) fail("keywords must be strings");
      out.named.emplace_back(key.bytes(), std::move(value));
    }
  }
  return out;
}

Value Evaluator::evaluate_call(const Expr& expr, const FramePtr& frame) {
  const Value callee = evaluate(*expr.children[0], frame);
  return call(callee, evaluate_arguments(*expr.args, frame));
}

Value Evaluator::call(const Value& callee, const Arguments& arguments) {
  state_.meter.step();
  switch (callee.kind()) {
    case Kind::kUndefined: fail(callee.undefined_message());
    case Kind::kFunction: return apply(*callee.function_object().function, *this, Value(), arguments);
    case Kind::kMethod: return apply(*callee.method_function(), *this, callee.method_self(), arguments);
    case Kind::kMacro: return call_macro(callee.macro_object(), arguments);
    case Kind::kNamespace:
      if (is_joiner(state_, callee)) return call_joiner(*this, callee, arguments);
      break;
    case Kind::kLoop: return executor_.call_loop(callee.loop_object(), arguments);
    default: break;
  }
  fail("'" + std::string(type_name(callee)) + "' object is not callable");
}

void Evaluator::bind_parameters(const MacroNode& node, const Arguments& arguments, const FramePtr& frame) {
  const size_t n = node.parameters.size();
  std::vector<bool> given(n, false);
  for (size_t i = 0; i < arguments.positional.size() && i < n; ++i) {
    frame->set(node.parameters[i].second, arguments.positional[i]);
    given[i] = true;
  }
  DictBuilder kwargs(state_);
  bool has_caller = false;
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < n && node.parameters[i].first != name) ++i;
    if (i < n) {
      if (given[i]) fail("macro '" + node.name + "' got multiple values for argument '" + name + "'");
      frame->set(node.parameters[i].second, value);
      given[i] = true;
    } else if (name == "caller" && node.uses_caller) {
      frame->set(Program::kCallerSymbol, value);
      has_caller = true;
    } else if (node.uses_kwargs) {
      kwargs.set(Value::text(name, arguments.name_origin), resolve_messages(state_, value));
    } else {
      fail("macro '" + node.name + "' takes no keyword argument '" + name + "'");
    }
  }
  if (arguments.positional.size() > n && !node.uses_varargs) {
    fail("macro '" + node.name + "' takes not more than " + std::to_string(n) + " argument(s)");
  }
  if (node.uses_varargs) {
    Items extra;
    for (size_t i = n; i < arguments.positional.size(); ++i) {
      extra.push_back(resolve_messages(state_, arguments.positional[i]));
    }
    frame->set(Program::kVarargsSymbol, Value::tuple(std::move(extra)));
  }
  if (node.uses_kwargs) frame->set(Program::kKwargsSymbol, kwargs.build());
  if (node.uses_caller && !has_caller) frame->set(Program::kCallerSymbol, Value::undefined("No caller defined"));
  // The default of a parameter may refer to earlier parameters, so it is evaluated in the macro's frame.
  const size_t first_default = n - node.defaults.size();
  for (size_t i = 0; i < n; ++i) {
    if (given[i]) continue;
    const auto& [name, symbol] = node.parameters[i];
    frame->set(symbol, i >= first_default ? evaluate(*node.defaults[i - first_default], frame)
                                          : Value::undefined("parameter '" + name + "' was not provided"));
  }
}

Value Evaluator::call_macro(const MacroObject& macro, const Arguments& arguments) {
  const auto level = state_.meter.enter_call();
  const FramePtr frame = inner_scope(macro.closure != nullptr ? macro.closure : state_.root);
  bind_parameters(*macro.node, arguments, frame);
  const int line = state_.line;
  MarkedText text = executor_.render(macro.node->body, frame);
  state_.line = line;
  return Value::string(std::move(text));
}

Value Evaluator::evaluate_filter(const Expr& expr, const Value& subject, const FramePtr& frame) {
  if (expr.filter == nullptr) fail(no_filter(expr.text));
  const Arguments arguments = evaluate_arguments(*expr.args, frame);
  return apply(*expr.filter, *this, subject, arguments);
}

Value Evaluator::evaluate_test(const Expr& expr, const FramePtr& frame) {
  const Value subject = evaluate(*expr.children[0], frame);
  if (expr.test == nullptr) fail("No test named '" + expr.text + "'.");
  return Value::boolean(apply(*expr.test, *this, subject, evaluate_arguments(*expr.args, frame)));
}

Value Evaluator::apply_filter(const std::string& name, const Value& subject, const Arguments& arguments) {
  state_.meter.step();
  const Filter filter = find_filter(name);
  if (filter == nullptr) fail(no_filter(name));
  return apply(*filter, *this, subject, arguments);
}

bool Evaluator::apply_test(const std::string& name, const Value& subject, const Arguments& arguments) {
  state_.meter.step();
  const Test test = find_test(name);
  if (test == nullptr) fail("No test named '" + name + "'.");
  return apply(*test, *this, subject, arguments);
}

namespace {

// True for variables whose text is from the model itself (bos_token, eos_token, ...) and may become control tokens. The
// text of other variables counts as input, because it may come from a request.
bool is_token_variable(std::string_view name) { return name.ends_with("_token") || name.ends_with("_tokens"); }

// Returns the format of a variable in which templates expect the date, as llama.cpp sets it; nullptr for other
// variables. Without date_string the templates of Llama 3 print a date of 2024; firefunction-v2's fails without
// datetime.
const char* date_format(std::string_view name) {
  return name == "date_string" ? "%d %b %Y" : name == "datetime" ? "%b %d %Y" : nullptr;
}

// The tools as a text, which firefunction-v2's template adds to the prompt; without tools an empty text.
std::string text_of_tools(const Json& variables) {
  const auto tools = variables.find("tools");
  const bool has_tools = tools != variables.end() && tools->is_array() && !tools->empty();
  return has_tools ? json_to_string(*tools) : "";
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
    cached = Value::none();  // None and not undefined, because transformers passes None for these two variables
  } else if (const char* format = date_format(name); input_.messages != nullptr && format != nullptr) {
    cached = Value::text(format_time(state_, input_.now, format), TextOrigin::kInput);
  } else if (input_.messages != nullptr && name == "functions") {
    std::string text = text_of_tools(*input_.variables);
    state_.meter.create(text.size());
    cached = Value::text(std::move(text), TextOrigin::kInput);
  } else if (const Function function = find_global(name); function != nullptr) {
    cached = Value::function(name, function);
  } else {
    cached = Value::undefined("'" + name + "' is undefined");
  }
  return *cached;
}

namespace {

constexpr Builtin<Value> kLoopMethods[] = {
    {"cycle(*)",
     [](const Call& c) {
       const Items& items = c.arguments.positional;
       if (items.empty()) fail("no items for cycling given");
       return items[c.subject.loop_object().index0 % items.size()];
     }},
    {"changed(*)",
     [](const Call& c) {
       LoopObject& loop = c.subject.loop_object();
       const Items& now = c.arguments.positional;
       bool same = loop.has_changed && loop.changed.size() == now.size();
       for (size_t i = 0; same && i < now.size(); ++i) same = equals(c.state, loop.changed[i], now[i]);
       loop.has_changed = true;
       loop.changed = now;
       return Value::boolean(!same);
     }},
};

// Fetches the next element that passes the loop's filter.
std::optional<Value> fetch(Evaluator& evaluator, LoopObject& loop) {
  for (;;) {
    std::optional<Value> value;
    if (loop.over_messages()) {
      value = evaluator.state().message(loop.position);
    } else if (loop.position < loop.size) {
      value = element(loop.sequence, loop.position);
    }
    if (!value) return std::nullopt;
    ++loop.position;
    evaluator.state().meter.step();
    const Expr* const filter = loop.stmt->exprs[1].get();
    if (filter == nullptr) return value;
    const FramePtr scope = inner_scope(loop.frame.lock());
    evaluator.assign(*loop.stmt->targets[0], *value, scope);
    if (truthy(evaluator.state(), evaluator.evaluate(*filter, scope))) return value;
  }
}

bool is_last(Evaluator& evaluator, LoopObject& loop) {
  if (!loop.ahead.empty()) return false;
  if (loop.stmt->exprs[1] == nullptr) {
    return loop.over_messages() ? !evaluator.state().has_message(loop.position) : loop.position >= loop.size;
  }
  if (auto next = fetch(evaluator, loop)) loop.ahead.push_back(std::move(*next));
  return loop.ahead.empty();
}

size_t loop_length(Evaluator& evaluator, LoopObject& loop) {
  const size_t so_far = loop.index0 + (loop.started ? 1 : 0) + loop.ahead.size();
  if (loop.stmt->exprs[1] == nullptr) {
    const size_t total = loop.over_messages() ? evaluator.state().message_count() : loop.size;
    return so_far + (total > loop.position ? total - loop.position : 0);
  }
  while (auto next = fetch(evaluator, loop)) loop.ahead.push_back(std::move(*next));
  return loop.index0 + (loop.started ? 1 : 0) + loop.ahead.size();
}

}  // namespace

std::shared_ptr<LoopObject> start_loop(RenderState& state, const Stmt& stmt, const FramePtr& frame,
                                       const Value& sequence) {
  auto loop = std::make_shared<LoopObject>();
  loop->stmt = &stmt;
  loop->frame = frame;
  if (sequence.is(Kind::kMessages)) {
    loop->sequence = sequence;
    loop->position = sequence.index();
  } else if (is_indexable(sequence)) {
    loop->sequence = sequence;
    loop->size = indexable_size(sequence);
  } else {
    Items items = iterate(state, sequence);
    loop->size = items.size();
    loop->sequence = Value::list(std::move(items));
  }
  return loop;
}

bool advance(Evaluator& evaluator, LoopObject& loop) {
  std::optional<Value> next;
  if (!loop.ahead.empty()) {
    next = std::move(loop.ahead.front());
    loop.ahead.pop_front();
  } else {
    next = fetch(evaluator, loop);
  }
  if (!next) return false;
  if (loop.started) ++loop.index0;
  loop.previous = loop.started ? std::move(loop.current) : Value::undefined("there is no previous item");
  loop.started = true;
  loop.current = std::move(*next);
  return true;
}

Value loop_attribute(Evaluator& evaluator, LoopObject& loop, std::string_view name) {
  const auto number = [](size_t n) { return Value::integer(static_cast<int64_t>(n)); };
  if (name == "index0") return number(loop.index0);
  if (name == "index") return number(loop.index0 + 1);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(is_last(evaluator, loop));
  if (name == "length") return number(loop_length(evaluator, loop));
  if (name == "revindex0") return number(loop_length(evaluator, loop) - loop.index0 - 1);
  if (name == "revindex") return number(loop_length(evaluator, loop) - loop.index0);
  if (name == "depth0") return number(loop.depth0);
  if (name == "depth") return number(loop.depth0 + 1);
  if (name == "previtem") return loop.previous;
  if (name == "nextitem") {
    if (loop.ahead.empty()) {
      if (auto next = fetch(evaluator, loop)) loop.ahead.push_back(std::move(*next));
    }
    return loop.ahead.empty() ? Value::undefined("there is no next item") : loop.ahead.front();
  }
  const Value self = Value::loop(loop.shared_from_this());
  if (const Method method = find_builtin<Value>(kLoopMethods, name)) return Value::method(self, method);
  return Value::undefined("'jinja2.runtime.LoopContext object' has no attribute '" + std::string(name) + "'");
}

}  // namespace ibid::jinja
