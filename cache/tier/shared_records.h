// SharedRecords: the single records of a RecordTier, for an audit (cache/tier/tier_records.h). A part of the tier.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cache/tier/tier_records.h"

namespace ibid {

class RecordTier;

class SharedRecords : public TierRecords {
 public:
  explicit SharedRecords(RecordTier& tier) : tier_(tier) {}

  Result<KvPage> read_page(const TierRecord& record) override;
  Result<StateSnapshot> read_state(const TierRecord& record) override;
  size_t extend(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry,
                std::vector<RecordRange>& used) override;
  // A shared store cannot list the followers of a record, so a new epoch removes all records of the namespace.
  Result<Removed> remove_wrong(const TierRecord& record) override;
  // kUnsupported.
  Result<RecordList> list() override;

 private:
  struct Reading;  // of one record
  using Decode = std::function<Status(Reading& reading, std::span<const std::byte> record)>;
  // Gets one record and calls `decode`. Errors: kNotFound; those of the store and of decode.
  Status read(const TierRecord& record, const Decode& decode);

  RecordTier& tier_;
};

}  // namespace ibid
