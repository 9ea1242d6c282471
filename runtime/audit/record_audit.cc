#include "runtime/audit/record_audit.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/sha256.h"
#include "base/token_prefix.h"
#include "runtime/generate/feeding.h"
#include "runtime/scheduler/pass_plan.h"

namespace ibid {

namespace {

// The first layer whose rows differ; layers that the stored page lacks are not compared.
std::optional<size_t> differing_layer(const KvLayout& layout, const PageMemory& stored, const PageMemory& computed) {
  for (size_t i = 0; i < layout.n_layers(); ++i) {
    const KvLayer& layer = layout.layer(i);
    if (layer.part == PagePart::kWindow && stored.window == nullptr) continue;
    if (std::memcmp(stored.layer(layer), computed.layer(layer), layer.bytes()) != 0) return i;
  }
  return std::nullopt;
}

bool same_floats(const float* a, const float* b, size_t n) { return std::memcmp(a, b, n * sizeof(float)) == 0; }

// The first recurrent layer whose states differ. stored: empty at position 0, where all states are zero.
std::optional<size_t> differing_state(const KvLayout& layout, const KvPage& stored, const KvPage& computed) {
  if (!stored && !computed) return std::nullopt;
  for (size_t i = 0; i < layout.n_states(); ++i) {
    const auto floats = [&](const KvPage& page) {
      return reinterpret_cast<const float*>(page.data()) + layout.state_offset(i);
    };
    if (!stored || !computed || !same_floats(floats(stored), floats(computed), layout.state(i).floats)) return i;
  }
  return std::nullopt;
}

AuditResult result_of(AuditVerdict verdict, Status why = {}) {
  AuditResult result;
  result.verdict = verdict;
  result.why = std::move(why);
  return result;
}

// A position up to which a text has to be computed for a comparison with a record.
size_t position_of(const RecordRange& record) {
  return record.kind == KvRecordKind::kPage ? record.n_tokens : record.first_position;
}

}  // namespace

std::string writer_text(const KvWriterId& writer) { return writer == KvWriterId{} ? "unknown" : to_hex(writer); }

std::string describe_wrong(const AuditResult& result) {
  const bool is_page = result.wrong.kind == KvRecordKind::kPage;
  std::string text = is_page ? "a page, positions " + std::to_string(result.wrong.first_position) + " to " +
                                   std::to_string(result.wrong.n_tokens - 1)
                             : "a recurrent state after " + std::to_string(result.wrong.first_position) + " tokens";
  text += ", first in layer " + std::to_string(result.layer) + ", written by " + writer_text(result.removed.writer);
  const size_t n = result.removed.n_followers;
  if (n > 0) text += "; " + std::to_string(n) + (n == 1 ? " record" : " records") + " computed after it";
  return text;
}

void AuditCounts::add(const AuditResult& result) {
  switch (result.verdict) {
    case AuditVerdict::kRight: ++n_right; return;
    case AuditVerdict::kGone: ++n_gone; return;
    case AuditVerdict::kUnreadable: ++n_unreadable; return;
    case AuditVerdict::kSkipped: ++n_skipped; return;
    case AuditVerdict::kUnexplained: ++n_unexplained; return;
    case AuditVerdict::kWrong: break;
  }
  ++n_wrong;
  n_followers += result.removed.n_followers;
  const bool is_counted = wrong_by_writer.size() < kMostWriters || wrong_by_writer.contains(result.removed.writer);
  ++wrong_by_writer[is_counted ? result.removed.writer : KvWriterId{}];
}

RecordAudit::RecordAudit(EngineState& engine, TierRecords& records, Options options)
    : engine_(engine), records_(records), options_(std::move(options)), before_(engine.pool()) {}

void RecordAudit::begin_with(const Sha256Digest& name_space, KvCacheEntry entry) {
  before_ = std::move(entry);
  name_space_ = name_space;
  used_states_.clear();
}

Result<AuditResult> RecordAudit::audit(const TierRecord& record) {
  Result<AuditResult> result = guarded([&] { return audit_or_throw(record); });
  if (result.status().code() != ErrorCode::kOutOfMemory) return result;
  return result_of(AuditVerdict::kSkipped, result.status());
}

Result<AuditResult> RecordAudit::audit_or_throw(const TierRecord& record) {
  read_before(record);
  TRY_ASSIGN(KvCacheEntry entry, before_.fork());
  TRY_ASSIGN(Comparison comparison, compare(entry, record));
  // Forged values before the record may also make its own values infinite or NaN.
  const bool is_not_finite = comparison.why.code() == ErrorCode::kNonFinite;
  if (comparison.verdict == AuditVerdict::kWrong || is_not_finite) return find_wrong(record);
  if (comparison.verdict == AuditVerdict::kRight) before_ = std::move(entry);  // for a record that continues this one
  return result_of(comparison.verdict, std::move(comparison.why));
}

// Reads what is stored before a record. A state must not be recomputed from itself, so one token before it is enough.
void RecordAudit::read_before(const TierRecord& record) {
  const bool is_state = record.kind == KvRecordKind::kState;
  const size_t n = record.first_position - (is_state && record.first_position > 0 ? 1 : 0);
  const TokenSpan wanted = record.ids().first(n);
  if (name_space_ != record.name_space) begin_with(record.name_space, KvCacheEntry(engine_.pool()));
  const size_t n_kept = before_.slice_to_at_most(common_prefix_length(before_.tokens(), wanted));
  std::erase_if(used_states_, [&](const RecordRange& state) { return state.first_position > n_kept; });
  if (n_kept == n) return;
  std::vector<RecordRange> used;
  records_.extend(record.name_space, wanted, before_, used);
  std::ranges::copy_if(used, std::back_inserter(used_states_),
                       [](const RecordRange& range) { return range.kind == KvRecordKind::kState; });
}

// Computes the text from its first token on, up to the first record that differs.
Result<AuditResult> RecordAudit::find_wrong(const TierRecord& record) {
  const std::vector<TierRecord> all = suspects(record);
  begin_with(record.name_space, KvCacheEntry(engine_.pool()));  // what was read may be computed from a wrong record
  KvCacheEntry computed(engine_.pool());
  for (const TierRecord& suspect : all) {
    TRY_ASSIGN(Comparison comparison, compare(computed, suspect));
    if (comparison.verdict == AuditVerdict::kSkipped) {
      return result_of(comparison.verdict, std::move(comparison.why));
    }
    if (comparison.verdict != AuditVerdict::kWrong) continue;
    TRY_ASSIGN(TierRecords::Removed removed, records_.remove_wrong(suspect));
    AuditResult result;
    result.verdict = comparison.verdict;
    result.wrong = static_cast<const RecordRange&>(suspect);
    result.layer = comparison.layer;
    result.removed = std::move(removed);
    return result;
  }
  return result_of(AuditVerdict::kUnexplained);
}

// The record, and those before it from which it may have been recomputed, in order.
std::vector<TierRecord> RecordAudit::suspects(const TierRecord& record) const {
  std::vector<TierRecord> all = {record};
  const auto add = [&](const RecordRange& range) {
    all.push_back(record);
    static_cast<RecordRange&>(all.back()) = range;
  };
  for (size_t end = kPagePositions; end <= record.first_position; end += kPagePositions) {
    add({KvRecordKind::kPage, end - kPagePositions, end});
  }
  for (const RecordRange& state : used_states_) add(state);
  std::ranges::stable_sort(all, {}, [](const TierRecord& suspect) {
    return std::tuple(position_of(suspect), suspect.kind, suspect.n_tokens);
  });
  return all;
}

// Computes the text of the entry up to the record. kSkipped if that fails.
Result<RecordAudit::Comparison> RecordAudit::compare(KvCacheEntry& entry, const TierRecord& record) {
  Result<Comparison> comparison = guarded(
      [&] { return record.kind == KvRecordKind::kPage ? compare_page(entry, record) : compare_state(entry, record); });
  if (comparison.ok() || comparison.status().code() == ErrorCode::kCancelled) return comparison;
  return Comparison{.verdict = AuditVerdict::kSkipped, .why = comparison.status()};
}

Result<RecordAudit::Comparison> RecordAudit::unreadable(const Status& why) {
  if (why.code() == ErrorCode::kOutOfMemory) return why;
  const bool is_gone = why.code() == ErrorCode::kNotFound;
  return Comparison{.verdict = is_gone ? AuditVerdict::kGone : AuditVerdict::kUnreadable, .why = why};
}

Result<RecordAudit::Comparison> RecordAudit::compare_page(KvCacheEntry& entry, const TierRecord& record) {
  const Result<KvPage> stored = records_.read_page(record);
  if (!stored.ok()) return unreadable(stored.status());
  TRY(feed_to(entry, record.ids(), options_.piece_rows));
  const std::optional<size_t> layer =
      differing_layer(entry.layout(), stored->parts(), entry.parts(record.first_position / kPagePositions));
  return Comparison{layer ? AuditVerdict::kWrong : AuditVerdict::kRight, layer.value_or(0)};
}

Result<RecordAudit::Comparison> RecordAudit::compare_state(KvCacheEntry& entry, const TierRecord& record) {
  const Result<StateSnapshot> stored = records_.read_state(record);
  if (!stored.ok()) return unreadable(stored.status());
  const size_t position = record.first_position;
  TRY(feed_to(entry, record.ids().first(position), options_.piece_rows));
  const StateSnapshot computed = entry.state().now(position);
  CHECK(computed.position == position && computed.n_rows == 0);
  std::optional<size_t> layer = differing_state(entry.layout(), stored->state, computed.state);
  if (!layer) {
    TRY_ASSIGN(layer, differing_row(entry, record, *stored));
  }
  return Comparison{layer ? AuditVerdict::kWrong : AuditVerdict::kRight, layer.value_or(0)};
}

// Compares the rows of a state: what each token after it adds to the states. Returns the first layer that differs.
Result<std::optional<size_t>> RecordAudit::differing_row(const KvCacheEntry& at_state, const TierRecord& record,
                                                         const StateSnapshot& stored) {
  const KvLayout& layout = at_state.layout();
  TRY_ASSIGN(KvCacheEntry entry, at_state.fork());
  // So few rows are fed in one pass, after which the entry has the rows of that pass.
  const size_t n_most = std::min(kDecodeRows, engine_.model().max_chunk());
  for (size_t n_done = 0; n_done < stored.n_rows;) {
    const size_t n = std::min(n_most, stored.n_rows - n_done);
    TRY(feed_to(entry, record.ids().first(record.first_position + n_done + n), n));
    entry.state().keep_last_pass(entry.length());
    const StateSnapshot& pass = entry.state().kept().back();
    CHECK_EQ(pass.n_rows, n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t layer = 0; layer < layout.n_states(); ++layer) {
        const float* stored_row = stored.rows->row(n_done + i) + layout.row_offset(layer);
        const float* computed_row = pass.rows->row(i) + layout.row_offset(layer);
        if (!same_floats(stored_row, computed_row, layout.state(layer).row_floats)) return std::optional(layer);
      }
    }
    n_done += n;
  }
  return std::optional<size_t>();
}

Status RecordAudit::feed_to(KvCacheEntry& entry, TokenSpan ids, size_t piece_rows) {
  while (entry.length() < ids.size()) {
    if (options_.before_piece && !options_.before_piece()) return {ErrorCode::kCancelled, "cancelled"};
    const TokenSpan piece = ids.subspan(entry.length(), std::min(piece_rows, ids.size() - entry.length()));
    Logits none;
    TRY(feed(engine_.scheduler(), entry, piece, WantLogits::kNone, options_.stop, none, options_.priority));
  }
  return {};
}

}  // namespace ibid
