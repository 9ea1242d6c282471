// BodyBudget: how much memory the bodies of all clients may have at once. The first bytes of a body are free, so that a
// few clients with large bodies do not lock out those with small ones; their number is bounded by that of connections.
//
// BodyBudget is thread-safe; an Allowance is its owner's.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/checked.h"

namespace ibid::http {

class BodyBudget {
 public:
  static constexpr size_t kFree = 64 * 1024;  // of each body

  explicit BodyBudget(size_t n_bytes) : n_bytes_(n_bytes) {}

 private:
  friend class BodyAllowance;
  const size_t n_bytes_;
  std::atomic<size_t> n_taken_{0};
};

// What one body has of the budget. Gives it back at its end.
class BodyAllowance {
 public:
  BodyAllowance() = default;
  explicit BodyAllowance(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyAllowance(BodyAllowance&& other) noexcept
      : budget_(std::move(other.budget_)), n_taken_(std::exchange(other.n_taken_, 0)) {}
  BodyAllowance& operator=(BodyAllowance&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(n_taken_, other.n_taken_);
    return *this;
  }
  ~BodyAllowance() {
    if (budget_ != nullptr) budget_->n_taken_ -= n_taken_;
  }

  // The body has so many bytes now. False: there is no room for them, and nothing was taken.
  bool grow_to(size_t n_bytes) {
    const size_t wanted = saturating_sub(n_bytes, BodyBudget::kFree);
    if (budget_ == nullptr || wanted <= n_taken_) return true;
    const size_t more = wanted - n_taken_;
    if (budget_->n_taken_.fetch_add(more) + more > budget_->n_bytes_) {
      budget_->n_taken_ -= more;
      return false;
    }
    n_taken_ = wanted;
    return true;
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  size_t n_taken_ = 0;
};

}  // namespace ibid::http
