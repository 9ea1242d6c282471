// TierRecords: the single records of a tier (cache/tier/kv_tier.h), for an audit. A look-up verifies that a record has
// the bytes that were written; an audit (runtime/audit) computes again what they should be.
//
// A record is identified by its whole text, because a page can only be recomputed from the tokens before it. A look-up
// reports the texts of the records that it read (ReadLimits::used); list() finds the texts of all.
//
// None of the calls counts as a use: statistics and the order of eviction stay as they were. Thread-safe, as the tier
// is. Calls may throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/pages/sequence_state.h"
#include "cache/tier/kv_record.h"
#include "cache/tier/kv_tier.h"
#include "ibid/token.h"

namespace ibid {

struct RecordList;

// A record of the tier's computation.
struct TierRecord : RecordRange {
  Sha256Digest name_space{};
  std::shared_ptr<const Tokens> tokens;  // from position 0, at least to the end of the record

  TokenSpan ids() const { return TokenSpan(*tokens).first(n_tokens); }
};

class TierRecords {
 public:
  TierRecords(const TierRecords&) = delete;
  TierRecords& operator=(const TierRecords&) = delete;
  virtual ~TierRecords() = default;

  // Reads a record into new memory, verified as by KvTier::extend(); a record that fails verification is quarantined.
  // If the page lacks its window part, so does the result. Errors: kNotFound, kIo, kOutOfMemory, and those of
  // KvRecordCheck. REQUIRES: record.kind is that of the function.
  virtual Result<KvPage> read_page(const TierRecord& record) = 0;
  virtual Result<StateSnapshot> read_state(const TierRecord& record) = 0;

  // As KvTier::extend(). Appends the records that were read whole to `used`.
  virtual size_t extend(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry,
                        std::vector<RecordRange>& used) = 0;

  struct Removed {
    std::string name = {};   // of the record in its storage
    KvWriterId writer{};     // zero: unknown
    size_t n_followers = 0;  // number of other records that were removed
  };
  // Moves a record with wrong bits aside, and removes all records whose values may have been computed from it: those
  // whose text has its first position (or, of a state, all tokens before it). Drops queued writes of the namespace.
  // Error: kIo; if the storage fails, the record may still be there.
  virtual Result<Removed> remove_wrong(const TierRecord& record) = 0;

  // The records of the storage, of any namespace. Errors: kIo; kUnsupported for a storage that cannot be listed; those
  // of the fingerprint (LaterFingerprint::get()).
  virtual Result<RecordList> list() = 0;

 protected:
  TierRecords() = default;
};

}  // namespace ibid
