// RenderState: the state of one render, and a record of its reads of the messages.
//
// Every read of the messages goes through RenderState, which records it (MessageReads). So a checkpoint knows on which
// messages it depends, how many must exist, and whether a further message could change the result of a read (then
// nothing after this read is final). This record makes rendering in O(new messages) possible.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "templates/jinja/ast.h"
#include "templates/jinja/template_budget.h"
#include "templates/jinja/value.h"

namespace ibid::jinja {

// --- Meter: counts the costs of one render and ends the render if they exceed the budget. steps: statements,
// expressions and iterations; the budget allows kStepsPerMessage more for each message. created: bytes of strings and
// lists that were built; scanned: bytes that were read. The byte budgets grow with the size of the messages. This size
// is computed only when the fixed part of a budget is used up, so that a render of few new messages does not read the
// old ones.

class Meter {
 public:
  // `variables`: the variables of the render. `messages` may be nullptr.
  Meter(const TemplateBudget& budget, const Json* messages, const Json* variables)
      : budget_(budget),
        messages_(messages),
        variables_(variables),
        max_steps_(budget.max_steps + steps_for(messages)) {}

  void step() {
    if (++steps_ > max_steps_) refuse_steps();
  }
  void scan(size_t bytes) {
    scanned_ += bytes;
    if (scanned_ > max_scanned_) grow_or_refuse(scanned_, max_scanned_, kScanFactor);
  }
  void create(size_t bytes) {
    created_ += bytes;
    if (created_ > max_created_) grow_or_refuse(created_, max_created_, kCreateFactor);
  }
  // Call before building a string of `bytes` bytes by repetition or padding. Fails if it exceeds the output budget.
  void check_string(uint64_t bytes);
  void output(size_t total_bytes) {
    if (total_bytes > max_output_) grow_or_refuse(total_bytes, max_output_, 1);
  }
  uint64_t max_range() const { return budget_.max_range; }
  uint64_t steps() const { return steps_; }

  // One level of recursion of the interpreter. The object holds the level while it exists. Limits macros and recursive
  // loops to max_depth levels, and nested statements and expressions to kNodesPerDepth times as many.
  class Level {
   public:
    Level(Meter& meter, uint32_t& depth, uint32_t limit) : depth_(depth) {
      if (++depth_ > limit) {
        --depth_;
        meter.refuse_depth();
      }
    }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    uint32_t& depth_;
  };
  Level enter_node() { return Level(*this, node_depth_, budget_.max_depth * kNodesPerDepth); }
  Level enter_call() { return Level(*this, call_depth_, budget_.max_depth); }

 private:
  // Approximate number of nested statements and expressions in a macro call.
  static constexpr uint32_t kNodesPerDepth = 8;
  // Templates of published models take about 50 steps per message, copy the message a dozen times (split, strip,
  // slices) and scan it more often.
  static constexpr uint64_t kStepsPerMessage = 1000;
  static constexpr uint64_t kCreateFactor = 16;
  static constexpr uint64_t kScanFactor = 64;

  static uint64_t steps_for(const Json* messages);
  [[noreturn]] void refuse_steps() const;
  [[noreturn]] void refuse_depth() const;
  void grow_or_refuse(uint64_t used, uint64_t& limit, uint64_t factor);
  uint64_t outside_bytes();

  TemplateBudget budget_;
  const Json* messages_;
  const Json* variables_;
  bool outside_known_ = false;
  uint64_t outside_bytes_ = 0;
  uint64_t steps_ = 0, scanned_ = 0, created_ = 0;
  uint64_t max_steps_;
  uint64_t max_scanned_ = budget_.max_output_bytes * kScanFactor;
  uint64_t max_created_ = budget_.max_output_bytes * kCreateFactor;
  uint64_t max_output_ = budget_.max_output_bytes;
  uint32_t node_depth_ = 0, call_depth_ = 0;
};

using Attributes = std::vector<std::pair<std::string, Value>>;
using Variables = std::vector<std::pair<Symbol, Value>>;

// The variables of one scope. Each iteration of a loop and each call of a macro has a new scope; {% if %} has none.
struct Frame {
  Variables variables;
  std::shared_ptr<Frame> parent;

  const Value* find(Symbol symbol) const;  // searches only this frame
  void set(Symbol symbol, Value value);
};
using FramePtr = std::shared_ptr<Frame>;

// Returns a new scope inside `frame`.
FramePtr inner_scope(const FramePtr& frame);

struct MessageReads {
  size_t messages = 0;             // number of messages at the beginning that include all messages that were read
  size_t known_length = 0;         // the reads have the same result whenever there are at least this many messages
  bool end = false;                // true if a further message could change the result of a read
  bool generation_prompt = false;  // true if the render read add_generation_prompt
};

struct RenderState {
  RenderState(const TemplateBudget& budget, const Json* all_messages, const Json* all_variables)
      : meter(budget, all_messages, all_variables), messages(all_messages) {}
  RenderState(const RenderState&) = delete;
  RenderState& operator=(const RenderState&) = delete;
  ~RenderState();

  Meter meter;
  const Json* messages;  // the array of messages; nullptr for a render without messages
  MessageReads reads;
  FramePtr root = std::make_shared<Frame>();
  // Copied when written, so that a checkpoint shares the namespaces that have not changed since.
  std::vector<std::shared_ptr<const Attributes>> namespaces;
  bool namespace_escaped = false;  // true if a namespace was given an object that belongs to one iteration of a loop
  // Frames that macros refer to: cleared at the end of the render, because frames and macros refer to each other.
  std::vector<FramePtr> captured;
  void set_attribute(size_t name_space, const std::string& name, Value value);
  size_t message_iterations = 0;
  int line = 0;  // line of the current statement

  // --- Reads of the messages. message() returns nullopt for an index past the end.
  std::optional<Value> message(size_t index);
  bool has_message(size_t index);
  size_t message_count();  // counts as a read of the end, because a further message changes the number
  std::vector<Value> all_messages_from(size_t first);
};

}  // namespace ibid::jinja
