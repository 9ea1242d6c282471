// CompileBudget: limits the cost of compiling one grammar, so that a hostile grammar ends with an error instead of
// exhausting the process. A unit of work costs about as much as a table lookup or a copied word. Memory is counted if
// it grows with the input. Compilation also ends if the stop token is triggered.
//
// After a failure all calls fail, so a loop may check only at its end. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stop_token>
#include <string>
#include <utility>

#include "base/result.h"

namespace ibid {

class CompileBudget {
 public:
  struct Limits {
    uint64_t max_work = 40'000'000;
    size_t max_bytes = 256u << 20;
  };
  // Cost, in units of work, of adding an item to a configuration (grammar/configurations.h).
  static constexpr uint64_t kItemCost = 12;

  explicit CompileBudget(std::stop_token stop = {}) : CompileBudget(std::move(stop), Limits{}) {}
  CompileBudget(std::stop_token stop, const Limits& limits) : stop_(std::move(stop)), limits_(limits) {}
  CompileBudget(const CompileBudget&) = delete;
  CompileBudget& operator=(const CompileBudget&) = delete;

  // Adds n units of work. Returns false if the budget is used up.
  bool spend(uint64_t n) {
    n_work_ += n;
    if (n_work_ > limits_.max_work) fail(ErrorCode::kLimitExceeded, "it takes too much work to compile");
    if (stop_.stop_requested()) fail(ErrorCode::kCancelled, "cancelled");
    return ok();
  }
  // Adds n bytes of memory, which count until give_back(). Returns false if the budget is exceeded.
  bool hold(size_t n) {
    n_bytes_ += n;
    peak_bytes_ = std::max(peak_bytes_, n_bytes_);
    if (n_bytes_ > limits_.max_bytes) fail(ErrorCode::kLimitExceeded, "it takes too much memory to compile");
    return ok();
  }
  void give_back(size_t n) { n_bytes_ -= n; }

  bool ok() const { return code_ == ErrorCode::kOk; }
  // Returns the reason if the budget is used up. Errors: kLimitExceeded, kCancelled. `what` names the grammar.
  Status status(const std::string& what) const { return ok() ? Status() : Status(code_, what + ": " + why_); }

  uint64_t n_work() const { return n_work_; }
  size_t peak_bytes() const { return peak_bytes_; }

 private:
  void fail(ErrorCode code, const char* why) {
    if (ok()) code_ = code, why_ = why;
  }

  const std::stop_token stop_;
  const Limits limits_;
  uint64_t n_work_ = 0;
  size_t n_bytes_ = 0, peak_bytes_ = 0;
  ErrorCode code_ = ErrorCode::kOk;
  const char* why_ = "";
};

// Memory charged to a budget; the destructor gives it back.
class HeldBytes {
 public:
  explicit HeldBytes(CompileBudget& budget) : budget_(&budget) {}
  HeldBytes(HeldBytes&& other) noexcept : budget_(other.budget_), n_(std::exchange(other.n_, 0)) {}
  HeldBytes& operator=(HeldBytes&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(n_, other.n_);
    return *this;
  }
  ~HeldBytes() { budget_->give_back(n_); }
  // Changes the charge to n bytes in total. Returns false if the budget is exceeded.
  bool set(size_t n) {
    budget_->give_back(std::exchange(n_, n));
    return budget_->hold(n);
  }

 private:
  CompileBudget* budget_;
  size_t n_ = 0;
};

}  // namespace ibid
