// MemoryStore: a RecordStore in a map, as a server would be. It can be unreachable, slow, silent, full, or lie.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <vector>

#include "cache/tier/record_store.h"

namespace ibid {

// Thread-safe; outlives tiers, like a server. Set `advance` before the first call.
class MemoryStore : public RecordStore {
 public:
  std::atomic<bool> fails{false};  // unreachable: every call fails
  std::atomic<bool> is_full{false};
  std::atomic<bool> lies{false};         // get() gives records of other names
  std::atomic<int64_t> record_ns{0};     // time until a record comes; with more than the timer has, none comes
  std::function<void(int64_t)> advance;  // advances the clock of the timers
  std::atomic<size_t> n_calls{0}, n_gets{0};

  Status get(std::span<const PageName> names, ReadTimer& timer, const Take& take) override;
  Status put(const PageName& name, Pieces pieces, bool replaces) override;
  Status remove(const PageName& name, ReadTimer& timer) override;
  Result<std::vector<std::vector<std::byte>>> tails(const PageName& name, ReadTimer& timer) override;
  Status add_tail(const PageName& name, std::span<const std::byte> tail) override;
  Result<uint64_t> epoch(const Sha256Digest& name_space, ReadTimer& timer) override;
  Status raise_epoch(const Sha256Digest& name_space, uint64_t epoch) override;

  size_t size() const;
  void forget_epochs();
  void forget_records();
  // Copies records, tails and the larger epochs of another store.
  void merge(const MemoryStore& other);
  // Flips a bit in the last byte of each page record that starts at this position.
  void damage(size_t first_position);
  // Changes each record.
  void change_all(const std::function<void(std::vector<std::byte>&)>& change);

 private:
  Status begin_call();
  // Lets a record come. Returns false if the timer is over before.
  bool wait_for_record(ReadTimer& timer);

  mutable std::mutex mutex_;  // guards the members below
  std::map<PageName, std::vector<std::byte>> records_;
  std::map<PageName, std::deque<std::vector<std::byte>>> tails_;  // the newest first
  std::map<Sha256Digest, uint64_t> epochs_;
  size_t n_lies_ = 0;
};

}  // namespace ibid
