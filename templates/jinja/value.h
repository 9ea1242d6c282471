// Value: a value in a template, in Python's terms. Immutable, apart from loops and generators. Namespaces are stored in
// the RenderState and referred to by index, so that a state can be saved and resumed.
//
// JSON arrays and objects are not converted: a value points into the caller's JSON, which must outlive it. The messages
// have the kind kMessages: an open-ended view that only state.h can resolve. Cheap to copy (a reference count at most).
// Distinct values may be used from different threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/marked_text.h"
#include "base/result.h"

namespace ibid::jinja {

class Evaluator;
struct Arguments;
struct DictObject;
struct Frame;
struct LoopObject;
struct MacroNode;
struct SequenceObject;
class Value;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kSequence,  // list, tuple, dict view, generator: see SequenceStyle
  kDict,
  kJsonList,
  kJsonDict,
  kMessages,  // messages[first:]
  kRange,
  kNamespace,  // index into RenderState
  kMacro,
  kFunction,
  kMethod,
  kLoop,
};

enum class SequenceStyle : uint8_t { kList, kTuple, kGroup, kKeys, kValues, kItems, kGenerator };

// Maximum nesting of lists and objects that a template builds.
inline constexpr uint32_t kMaxValueDepth = 100;

using Items = std::vector<Value>;
using Entry = std::pair<Value, Value>;

struct Object {
  virtual ~Object() = default;
};
struct StringObject : Object {
  MarkedText text;
  bool markup = false;  // markupsafe.Markup: `+` and % escape their operands
};
struct RangeObject : Object {
  int64_t start = 0, stop = 0, step = 1;
  int64_t size() const;
};
struct MacroObject : Object {
  const MacroNode* node = nullptr;
  std::shared_ptr<Frame> closure;  // frame in which the macro was defined; nullptr: the template's outermost frame
};

template <typename Result>
struct Builtin;  // defined in builtins.h
using Function = const Builtin<Value>*;
using Method = const Builtin<Value>*;
struct FunctionObject : Object {
  std::string name;
  Function function = nullptr;
};

// Where a JSON container is located, and the origin of its text.
struct JsonSource {
  TextOrigin origin = TextOrigin::kInput;  // origin of the container's strings
  // true: the container is in the messages; false: in the variables, which exist as long as a renderer's checkpoints.
  bool in_messages = false;
  int64_t message = -1;  // >= 0: the container is the whole message with this index
};

class Value {
 public:
  Value() = default;  // the undefined value, without a name
  static Value undefined(std::string message);
  static Value none();
  static Value boolean(bool value);
  static Value integer(int64_t value);
  static Value floating(double value);
  static Value string(MarkedText text, bool markup = false);
  static Value text(std::string bytes, TextOrigin origin = TextOrigin::kTemplate);
  // Fails beyond kMaxValueDepth.
  static Value sequence(SequenceStyle style, Items items);
  static Value list(Items items) { return sequence(SequenceStyle::kList, std::move(items)); }
  static Value tuple(Items items) { return sequence(SequenceStyle::kTuple, std::move(items)); }
  // REQUIRES: no two equal keys (use DictBuilder in operations.h).
  static Value dict(std::vector<Entry> entries);
  // Converts scalars; arrays and objects are referenced, not copied.
  static Value json(const Json& json, const JsonSource& source);
  static Value messages(size_t first);
  static Value range(int64_t start, int64_t stop, int64_t step);
  static Value name_space(size_t index);
  static Value macro(const MacroNode* node, std::shared_ptr<Frame> closure);
  static Value function(std::string name, Function function);
  static Value method(Value self, Method method);
  static Value loop(std::shared_ptr<LoopObject> loop);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_dict() const { return kind_ == Kind::kDict || kind_ == Kind::kJsonDict; }
  bool is_list() const { return kind_ == Kind::kJsonList || is_style(SequenceStyle::kList); }
  bool is_tuple() const { return is_style(SequenceStyle::kTuple) || is_style(SequenceStyle::kGroup); }
  bool is_style(SequenceStyle style) const;
  // Counts bool as int, as Python does.
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }

  // REQUIRES, for each as_...() function: the value has the kind in the function's name.
  bool as_bool() const { return integer_ != 0; }
  int64_t as_int() const { return integer_; }  // kInt, kBool
  double as_double() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(integer_); }
  const MarkedText& as_string() const { return object<StringObject>().text; }
  const std::string& bytes() const { return as_string().bytes(); }
  bool is_markup() const { return is_string() && object<StringObject>().markup; }
  const SequenceObject& sequence_object() const;
  const DictObject& dict_object() const;
  const RangeObject& range_object() const { return object<RangeObject>(); }
  const MacroObject& macro_object() const { return object<MacroObject>(); }
  const FunctionObject& function_object() const { return object<FunctionObject>(); }
  LoopObject& loop_object() const;
  const Value& method_self() const;
  Method method_function() const;
  const Json& json_value() const { return *json_; }
  const JsonSource& json_source() const { return source_; }
  size_t index() const { return static_cast<size_t>(integer_); }  // kMessages, kNamespace
  // Returns why the value is undefined, in Jinja's words.
  std::string undefined_message() const;

  const Object* identity() const { return object_.get(); }

 private:
  template <typename T>
  const T& object() const {
    return static_cast<const T&>(*object_);
  }

  Kind kind_ = Kind::kUndefined;
  JsonSource source_{};
  union {
    int64_t integer_ = 0;
    double float_;
    const Json* json_;
  };
  std::shared_ptr<const Object> object_;
};

// The objects that hold values. They are complete types in this header because Value's destructor needs them.
struct SequenceObject : Object {
  SequenceStyle style = SequenceStyle::kList;
  uint32_t depth = 1;
  Items items;
};
struct DictObject : Object {
  uint32_t depth = 1;
  std::vector<Entry> entries;
};

inline const SequenceObject& Value::sequence_object() const { return object<SequenceObject>(); }
inline const DictObject& Value::dict_object() const { return object<DictObject>(); }
inline bool Value::is_style(SequenceStyle style) const {
  return kind_ == Kind::kSequence && sequence_object().style == style;
}

// Evaluated arguments of a call.
struct Arguments {
  Items positional;
  std::vector<std::pair<std::string, Value>> named;
  // Origin of the argument names: kInput if some names come from an unpacked dict.
  TextOrigin name_origin = TextOrigin::kTemplate;
};

// --- Failures: errors of the engine's own functions. Thrown and caught inside jinja/ only: compile() and run() turn
// them into a Status. (Every operator, filter and method of a template can fail; if each returned a Result, the code
// would be hard to read.)

struct Failure {
  ErrorCode code;
  std::string message;
};

// Fails for an operation that Jinja or Python rejects.
[[noreturn]] inline void fail(std::string message) { throw Failure{ErrorCode::kTemplateError, std::move(message)}; }

// Fails because a budget was exceeded; `message` names the budget.
[[noreturn]] inline void fail_budget(std::string message) {
  throw Failure{ErrorCode::kTemplateBudget, std::move(message)};
}

[[noreturn]] inline void fail_syntax(int line, const std::string& message) {
  throw Failure{ErrorCode::kTemplateSyntax, "template line " + std::to_string(line) + ": " + message};
}

}  // namespace ibid::jinja
