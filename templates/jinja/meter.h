// Meter: counts what one render spends and stops it at the budget.
//
// steps: statements, expressions and iterations; a message more allows kStepsPerMessage more. created: bytes
// of strings and lists that were built; scanned: bytes that were looked at. The byte budgets grow with the
// messages. Their size is asked for only when the fixed part is used up, so that a render of few new messages does
// not look at the old ones.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/json_fwd.h"
#include "templates/jinja/template_budget.h"

namespace ibid::jinja {

class Meter {
 public:
  // What the caller brought; `messages` may be nullptr.
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
  // Before a string of `bytes` is built by repetition or padding: refuses what could never be printed.
  void check_string(uint64_t bytes);
  void output(size_t total_bytes) {
    if (total_bytes > max_output_) grow_or_refuse(total_bytes, max_output_, 1);
  }
  uint64_t max_range() const { return budget_.max_range; }
  uint64_t steps() const { return steps_; }

  // One level of the interpreter's own recursion; macros and recursive loops count against max_depth itself.
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
  // A macro call passes through about this many nested statements and expressions.
  static constexpr uint32_t kNodesPerDepth = 8;
  // Legitimate templates take about 50 steps for a message, copy it a dozen times (split, strip, slices) and
  // look at it more often.
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

}  // namespace ibid::jinja
