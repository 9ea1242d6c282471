// FailingNew: counts the calls of operator new, and makes the n-th allocation fail, of this thread or of all threads,
// once or from then on. Inactive unless a FailingNew object exists. Link ibid_failing_new.
#pragma once

#include <cstddef>

namespace ibid {

class FailingNew {
 public:
  enum class Threads { kThisOne, kAll };
  static constexpr size_t kNever = ~size_t{0};

  // Counts allocations from now on. Allocation number n (from 0) throws std::bad_alloc; with `lasting`, all later ones
  // do too. REQUIRES: no other FailingNew exists in this thread; with kAll, in the program.
  explicit FailingNew(size_t n, bool lasting = false, Threads threads = Threads::kThisOne);
  ~FailingNew() { stop(); }
  FailingNew(const FailingNew&) = delete;
  FailingNew& operator=(const FailingNew&) = delete;

  // Makes allocations succeed again; they are no longer counted.
  void stop();
  size_t allocations() const;  // number of allocations until stop()
  bool has_failed() const;

 private:
  const Threads threads_;
  bool is_on_ = true;
  size_t allocations_ = 0;
  bool has_failed_ = false;
};

}  // namespace ibid
