// RenderState: what one render holds while it runs, and a record of what it has looked at.
//
// MessageReads makes O(new messages) possible. Every look at the messages passes through it, so that a
// checkpoint knows which messages it depends on, how many it knows to exist, and whether anything was asked
// whose answer a further message changes (then nothing after that is final).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "templates/jinja/ast.h"
#include "templates/jinja/meter.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

using Attributes = std::vector<std::pair<std::string, Value>>;
using Variables = std::vector<std::pair<Symbol, Value>>;

// One scope. Loops get a fresh one for each iteration, macros for each call; {% if %} has none.
struct Frame {
  Variables variables;
  std::shared_ptr<Frame> parent;

  const Value* find(Symbol symbol) const;  // here only
  void set(Symbol symbol, Value value);
};
using FramePtr = std::shared_ptr<Frame>;

// A new scope inside of `frame`.
FramePtr inner_scope(const FramePtr& frame);

struct MessageReads {
  size_t messages = 0;             // only messages [0, messages) were read
  size_t known_length = 0;         // the template knows that there are at least so many
  bool end = false;                // it asked something that a longer conversation answers differently
  bool generation_prompt = false;  // it read add_generation_prompt
};

struct RenderState {
  RenderState(const TemplateBudget& budget, const Json* all_messages, const Json* all_variables)
      : meter(budget, all_messages, all_variables), messages(all_messages) {}
  RenderState(const RenderState&) = delete;
  RenderState& operator=(const RenderState&) = delete;
  ~RenderState();

  Meter meter;
  const Json* messages;  // the array, or nullptr when there are none
  MessageReads reads;
  FramePtr root = std::make_shared<Frame>();
  // Copy on write: a checkpoint shares what has not changed since.
  std::vector<std::shared_ptr<const Attributes>> namespaces;
  bool namespace_escaped = false;  // an object of an iteration was stored where it outlives it
  std::vector<FramePtr> captured;  // frames that macros hold: cleared at the end, as they form cycles
  void set_attribute(size_t name_space, const std::string& name, Value value);
  size_t message_iterations = 0;
  int line = 0;  // of the statement that runs

  // --- Looks at messages[first:].
  // Message `index`, or nullopt past the end.
  std::optional<Value> message(size_t index);
  bool has_message(size_t index);
  size_t message_count();  // asks for the end
  std::vector<Value> all_messages_from(size_t first);
};

}  // namespace ibid::jinja
