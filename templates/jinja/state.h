// RenderState: the state of one render, and a record of its reads.
//
// MessageReads makes O(new messages) possible. Every read of the messages passes through it, so that a checkpoint knows
// which messages it depends on, how many must exist, and whether the result of some read may change with a further
// message (then nothing after it is final).
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

// --- Meter: counts the costs of one render and stops it at the budget. steps: statements, expressions and iterations,
// with kStepsPerMessage more per message. created: bytes of strings and lists that were built; scanned: bytes that were
// read. The byte budgets grow with the messages. Their size is computed only when the fixed part is used up, so that a
// render of few new messages does not read the old ones.

class Meter {
 public:
  // The caller's JSON. `messages` may be nullptr.
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
  // Call before a string of `bytes` is built by repetition or padding: fails if it exceeds the output budget.
  void check_string(uint64_t bytes);
  void output(size_t total_bytes) {
    if (total_bytes > max_output_) grow_or_refuse(total_bytes, max_output_, 1);
  }
  uint64_t max_range() const { return budget_.max_range; }
  uint64_t steps() const { return steps_; }

  // One level of the interpreter's recursion; macros and recursive loops count against max_depth itself.
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
  // About the number of nested statements and expressions per macro call.
  static constexpr uint32_t kNodesPerDepth = 8;
  // Legitimate templates take about 50 steps per message, copy it a dozen times (split, strip, slices) and scan it more
  // often.
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

// --- RenderState and its parts.

using Attributes = std::vector<std::pair<std::string, Value>>;
using Variables = std::vector<std::pair<Symbol, Value>>;

// One scope. Loops get a new one for each iteration, macros for each call; {% if %} gets none.
struct Frame {
  Variables variables;
  std::shared_ptr<Frame> parent;

  const Value* find(Symbol symbol) const;  // in this frame only
  void set(Symbol symbol, Value value);
};
using FramePtr = std::shared_ptr<Frame>;

// Returns a new scope inside `frame`.
FramePtr inner_scope(const FramePtr& frame);

struct MessageReads {
  size_t messages = 0;             // only messages [0, messages) were read
  size_t known_length = 0;         // minimum number of messages that the template has seen to exist
  bool end = false;                // a read whose result a longer conversation changes
  bool generation_prompt = false;  // add_generation_prompt was read
};

struct RenderState {
  RenderState(const TemplateBudget& budget, const Json* all_messages, const Json* all_variables)
      : meter(budget, all_messages, all_variables), messages(all_messages) {}
  RenderState(const RenderState&) = delete;
  RenderState& operator=(const RenderState&) = delete;
  ~RenderState();

  Meter meter;
  const Json* messages;  // the array; nullptr for a render without messages
  MessageReads reads;
  FramePtr root = std::make_shared<Frame>();
  // Copy on write: a checkpoint shares what has not changed since.
  std::vector<std::shared_ptr<const Attributes>> namespaces;
  bool namespace_escaped = false;  // an object of one iteration was stored outside it
  std::vector<FramePtr> captured;  // frames held by macros: cleared at the end, because they form cycles
  void set_attribute(size_t name_space, const std::string& name, Value value);
  size_t message_iterations = 0;
  int line = 0;  // of the current statement

  // --- Reads of messages[first:].
  // Message `index`, or nullopt past the end.
  std::optional<Value> message(size_t index);
  bool has_message(size_t index);
  size_t message_count();  // counts as a read of the end
  std::vector<Value> all_messages_from(size_t first);
};

}  // namespace ibid::jinja
