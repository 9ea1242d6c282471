// TwoTiers: a KvTier of two. A near tier, such as a directory, is searched before a far one, such as a server that
// nodes share. Both get all writes, and what a look-up reads from the far tier is written to the near one.
//
// Thread-safe, if both tiers are.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "cache/tier/kv_tier.h"
#include "cache/tier/tier_records.h"

namespace ibid {

// The single records of both tiers. A record is read from the near one if that has it.
class TwoTierRecords : public TierRecords {
 public:
  // Null if a tier has none. Both must outlive the object.
  TwoTierRecords(TierRecords* near, TierRecords* far) : near_(near), far_(far) {}
  bool are_known() const { return near_ != nullptr && far_ != nullptr; }

  Result<KvPage> read_page(const TierRecord& record) override;
  Result<StateSnapshot> read_state(const TierRecord& record) override;
  size_t extend(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry,
                std::vector<RecordRange>& used) override;
  // Removes it from both. The far record names the writer, because a near one may be a copy that this process wrote.
  Result<Removed> remove_wrong(const TierRecord& record) override;
  Result<RecordList> list() override;  // of the near tier

 private:
  TierRecords *near_, *far_;
};

class TwoTiers : public KvTier {
 public:
  // The clock must outlive the tiers.
  TwoTiers(std::unique_ptr<KvTier> near, std::unique_ptr<KvTier> far, Clock& clock)
      : near_(std::move(near)), far_(std::move(far)), clock_(clock), records_(near_->records(), far_->records()) {}

  using KvTier::extend;
  using KvTier::flush;
  size_t extend(std::string_view name_space, TokenSpan ids, KvCacheEntry& entry, const ReadLimits& limits) override;
  void write_behind(std::string_view name_space, const KvCacheEntry& entry) override;
  // The near tier is written first. Returns the first error.
  Status flush(int64_t limit_ns) override;
  // Clears both, also if the first cannot be cleared. Returns the first error.
  Status clear(std::string_view name_space) override;
  // Sums; texts are of the first tier that has one.
  KvTierStats stats() const override;
  TierRecords* records() override { return records_.are_known() ? &records_ : nullptr; }

  const KvTier& near() const { return *near_; }
  const KvTier& far() const { return *far_; }

 private:
  const std::unique_ptr<KvTier> near_, far_;
  Clock& clock_;
  TwoTierRecords records_;
};

}  // namespace ibid
