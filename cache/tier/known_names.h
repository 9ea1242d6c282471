// KnownNames: names of records that are known to be stored, because this process wrote or read them, so that a turn
// need not ask a storage that other processes change. A name is forgotten after an hour and at a miss; the least
// recently known ones are forgotten when there are too many. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/page_name.h"

namespace ibid {

class KnownNames {
 public:
  static constexpr size_t kMostNames = size_t{1} << 15;
  static constexpr int64_t kForgetNs = int64_t{3600} * 1'000'000'000;

  explicit KnownNames(Clock& clock) : clock_(clock) {}

  // The record is stored with these parts, and with those known before.
  void add(const PageName& name, KvPageParts parts = KvPageParts::kBoth);
  bool has(const PageName& name, KvPageParts parts = KvPageParts::kBoth) const;
  void forget(const PageName& name);
  void clear();

 private:
  struct Known {
    PageName name;
    KvPageParts parts = KvPageParts::kBoth;
    int64_t since_ns = 0;
  };

  Clock& clock_;
  mutable std::mutex mutex_;  // guards the members below
  std::list<Known> by_age_;   // the least recently known first
  std::map<PageName, std::list<Known>::iterator> by_name_;
};

}  // namespace ibid
