// RecordAudit: recomputes stored records (cache/tier/tier_records.h), and compares them with memcmp. The checksums of a
// record say that it has the bytes that were written, the audit says whether these were the right bytes: the logits of
// equal tokens have equal bits on every machine, and so have keys, values and states.
//
// A page is recomputed from the stored pages (and the stored state) before it, so it costs one piece of prefill. If it
// differs, a record before it may be the wrong one. So the text is then computed from its first token on, and the first
// record that differs from this is the wrong one. It is removed with all records that may be computed from it.
//
// One forged page passes if the audited ones do not follow it. A set of records is right if all of it was audited.
//
// For one thread at a time. Engine and records must outlive the object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/tier/tier_records.h"
#include "ibid/turn.h"
#include "runtime/engine/engine_state.h"

namespace ibid {

enum class AuditVerdict : uint8_t {
  kRight,
  kWrong,       // a wrong record was found and removed: this one, or one before it
  kGone,        // the record is not stored any more
  kUnreadable,  // the record fails verification, or the storage fails
  kSkipped,     // it could not be computed, for example for lack of memory
  // It differs if computed from the records before it, but not if computed from the first token on. Either this machine
  // computes wrongly, or a record that was in memory is wrong.
  kUnexplained,
};

struct AuditResult {
  AuditVerdict verdict = AuditVerdict::kRight;
  RecordRange wrong = {};             // kWrong: the wrong record
  size_t layer = 0;                   // kWrong: the first layer of the record that differs
  TierRecords::Removed removed = {};  // kWrong: what was removed
  Status why = {};                    // kGone, kUnreadable, kSkipped: the reason
};

// Returns for example "a page, positions 640 to 703, written by 00112233...; 3 records after it".
std::string describe_wrong(const AuditResult& result);
// The id of a writer in hexadecimal digits; "unknown" for zeros.
std::string writer_text(const KvWriterId& writer);

struct AuditCounts {
  static constexpr size_t kMostWriters = 64;  // further writers are counted as unknown

  size_t n_right = 0, n_wrong = 0, n_unexplained = 0, n_gone = 0, n_unreadable = 0, n_skipped = 0;
  size_t n_followers = 0;  // records that were removed because they may be computed from a wrong one
  std::map<KvWriterId, size_t> wrong_by_writer;

  size_t n_audited() const { return n_right + n_wrong + n_unexplained; }
  void add(const AuditResult& result);
};

class RecordAudit {
 public:
  static constexpr size_t kNoPieces = static_cast<size_t>(-1);
  struct Options {
    Priority priority = Priority::kNormal;
    std::stop_token stop = {};
    size_t piece_rows = kNoPieces;       // maximum rows of a pass
    std::function<bool()> before_piece;  // called before each piece; returns false to cancel; may be empty
  };

  RecordAudit(EngineState& engine, TierRecords& records, Options options);

  // Uses keys and values of this namespace that are in memory, instead of reading them again.
  void begin_with(const Sha256Digest& name_space, KvCacheEntry entry);

  // Error: kCancelled, and errors of removing a wrong record; the storage is then as before.
  Result<AuditResult> audit(const TierRecord& record);

 private:
  struct Comparison {
    AuditVerdict verdict = AuditVerdict::kRight;
    size_t layer = 0;
    Status why = {};
  };

  Result<AuditResult> audit_or_throw(const TierRecord& record);
  void read_before(const TierRecord& record);
  Result<AuditResult> find_wrong(const TierRecord& record);
  std::vector<TierRecord> suspects(const TierRecord& record) const;
  Result<Comparison> compare(KvCacheEntry& entry, const TierRecord& record);
  static Result<Comparison> unreadable(const Status& why);
  Result<Comparison> compare_page(KvCacheEntry& entry, const TierRecord& record);
  Result<Comparison> compare_state(KvCacheEntry& entry, const TierRecord& record);
  Result<std::optional<size_t>> differing_row(const KvCacheEntry& at_state, const TierRecord& record,
                                              const StateSnapshot& stored);
  Status feed_to(KvCacheEntry& entry, TokenSpan ids, size_t piece_rows);

  EngineState& engine_;
  TierRecords& records_;
  const Options options_;
  KvCacheEntry before_;                   // keys and values before the next record, read or computed
  Sha256Digest name_space_{};             // of before_
  std::vector<RecordRange> used_states_;  // states among the records that were read for before_
};

}  // namespace ibid
