#include "cache/tier/shared_records.h"

#include <utility>

#include "cache/tier/record_tier.h"
#include "cache/tier/record_tree.h"

namespace ibid {

struct SharedRecords::Reading {
  RecordTier::Reading data;
  TextName before;  // of the text before the record's page
  TokenSpan page_ids;
  PageName name;
};

Status SharedRecords::read(const TierRecord& record, const Decode& decode) {
  const ReadLimits limits;
  ReadTimer timer(limits, tier_.clock_);
  TRY_ASSIGN(const Fingerprint fingerprint, tier_.fingerprint_.get());
  TRY_ASSIGN(const uint64_t epoch, tier_.epoch_of(tier_.epochs_.current(record.name_space, timer)));
  Reading reading{{{fingerprint, record.name_space, epoch}, record.ids(), 0, timer, {}, {}, 0}, {}, {}, {}};
  PageNamer namer(first_half);
  reading.before = namer.before_page(reading.data.identity, record.ids().first(record.first_position));
  reading.page_ids = record.ids().subspan(reading.before.length);
  const size_t n_front = record.first_position - reading.before.length;
  reading.name = record.kind == KvRecordKind::kPage ? namer.next(reading.before, reading.page_ids).name
                                                    : namer.state(reading.before, reading.page_ids, n_front);
  const PageName keys[] = {reading.data.key(reading.name)};
  bool has_come = false;
  TRY(tier_.store_->get(keys, timer, [&](size_t, std::span<const std::byte> bytes) {
    has_come = true;
    reading.data.status = guarded([&] { return decode(reading, bytes); });
    return false;
  }));
  if (!has_come) return {ErrorCode::kNotFound, "KV record: is not stored any more"};
  Status status = reading.data.status;
  tier_.quarantine(reading.data, reading.name);
  return status;
}

Result<KvPage> SharedRecords::read_page(const TierRecord& record) {
  KvPage page;
  const Status status = read(record, [&](Reading& reading, std::span<const std::byte> bytes) -> Status {
    TRY(tier_.decode_page(reading.data, reading.before, reading.page_ids, bytes));
    page = std::move(reading.data.pages.back());
    return {};
  });
  if (!status.ok()) return status;
  return page;
}

Result<StateSnapshot> SharedRecords::read_state(const TierRecord& record) {
  StateSnapshot state;
  const Status status = read(record, [&](Reading& reading, std::span<const std::byte> bytes) -> Status {
    const RecordTier::Candidate wanted{{}, &reading.before, record.first_position, record.n_tokens};
    TRY_ASSIGN(state, tier_.decode_state(reading.data, wanted, bytes));
    return {};
  });
  if (!status.ok()) return status;
  return state;
}

size_t SharedRecords::extend(const Sha256Digest& name_space, TokenSpan ids, KvCacheEntry& entry,
                             std::vector<RecordRange>& used) {
  const Result<size_t> added = tier_.read_into(name_space, ids, entry, {.used = &used}, true);
  return added.ok() ? *added : 0;
}

Result<TierRecords::Removed> SharedRecords::remove_wrong(const TierRecord& record) {
  Removed removed;
  PageName name;
  const Status status = read(record, [&](Reading& reading, std::span<const std::byte> bytes) -> Status {
    name = reading.name;
    removed.name = to_hex(reading.data.key(name).bytes);
    TRY_ASSIGN(const KvRecordHeader header, parse_kv_record_header(bytes));
    removed.writer = header.writer;
    return {};
  });
  if (status.code() == ErrorCode::kNotFound) return removed;
  if (!status.ok()) return status;
  const std::unique_lock pen = tier_.take_pen();
  tier_.wrong_.insert(name);
  tier_.writing_.forget(record.name_space);
  tier_.forget_all();
  TRY(tier_.epochs_.begin(record.name_space));
  ++tier_.n_quarantined_;
  return removed;
}

Result<RecordList> SharedRecords::list() {
  return Status(ErrorCode::kUnsupported, "the records of a store that nodes share cannot be listed");
}

}  // namespace ibid
