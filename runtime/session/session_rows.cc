#include "runtime/session/session_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "cache/pages/kv_layout.h"
#include "cache/tier/kv_page_file.h"
#include "cache/tier/kv_state_file.h"
#include "cache/tier/page_name.h"

namespace ibid {
namespace {

// --- writing

// Copies only the rows up to the last position: later rows of the last page belong to other text. before: the text
// before the page.
Status write_page(File& file, const SavedRows& rows, const TextName& before, TokenSpan page_ids,
                  std::vector<std::byte>& scratch) {
  const KvLayout& layout = rows.entry.layout();
  const size_t page = before.length / kPagePositions;
  const KvWindowReader window = rows.entry.read_window(page);
  const bool is_whole = layout.window() == 0 || window;
  const KvPageParts parts = is_whole ? KvPageParts::kBoth : KvPageParts::kFirst;
  scratch.assign(layout.page_bytes(), std::byte{0});
  const PageMemory from(rows.entry.parts(page).all, is_whole ? rows.entry.parts(page).window : nullptr);
  layout.copy_rows(from, layout.parts_of(scratch.data()), page_ids.size());
  TRY(file.write(encode_kv_page_header(layout, {rows.identity, before.followed_by(page_ids)}, scratch.data(), parts)));
  return file.write(kv_page_blocks(layout, scratch.data(), parts));
}

Status write_state(File& file, const SavedRows& rows, const TextName& before, const StateSnapshot& snapshot) {
  const KvLayout& layout = rows.entry.layout();
  const std::byte* state = snapshot.state ? snapshot.state.data() : nullptr;
  const TokenSpan page_ids = rows.entry.tokens().first(snapshot.end()).subspan(before.length);
  TRY(file.write(encode_kv_state_header(layout, {rows.identity, before.followed_by(page_ids)}, snapshot, state)));
  for (const std::span<const std::byte> blocks : kv_state_blocks(layout, snapshot, state)) {
    if (!blocks.empty()) TRY(file.write(blocks));
  }
  return {};
}

// --- reading

Result<std::vector<std::byte>> read_record(File& file, uint64_t offset, uint64_t n_bytes, const std::string& path) {
  std::vector<std::byte> bytes(n_bytes);
  TRY_ASSIGN(const size_t n, file.read_at(offset, bytes));
  if (n < n_bytes) return {ErrorCode::kTruncated, path + ": the file ends at byte " + std::to_string(offset + n)};
  return bytes;
}

bool are_finite(std::span<const float> floats) {
  return std::ranges::all_of(floats, [](float value) { return std::isfinite(value); });
}

bool is_finite(const KvLayout& layout, const StateSnapshot& snapshot) {
  const auto* state = snapshot.state ? reinterpret_cast<const float*>(snapshot.state.data()) : nullptr;
  if (state != nullptr && !are_finite({state, layout.state_bytes() / sizeof(float)})) return false;
  for (size_t i = 0; i < snapshot.n_rows; ++i) {
    if (!are_finite({snapshot.rows->row(i), layout.state_row_floats()})) return false;
  }
  return true;
}

// Collects the records read so far.
class RowsReader {
 public:
  RowsReader(const KvPageIdentity& identity, KvPagePool& pool, const std::string& path)
      : identity_(identity), pool_(pool), path_(path), texts_{namer_.first(identity)} {}

  // Call before allocating memory for a record. Returns an error if the record cannot be of this engine or is
  // incomplete. n_left: bytes to the end of the file.
  Status check_size(const KvRecordHeader& header, uint64_t n_left) const {
    const uint32_t version = header.identity.fingerprint.numerics_version;
    const uint32_t own = identity_.fingerprint.numerics_version;
    if (version != own) return kv_record_of_other_numerics(version, own);
    if (header.record_bytes > n_left) return {ErrorCode::kTruncated, path_ + ": truncated record"};
    const KvLayout& layout = pool_.layout();
    const bool is_page = header.kind == KvRecordKind::kPage;
    if (!is_page && layout.n_states() == 0) return kv_record_mismatch("model: it has no recurrent layers");
    const uint64_t most = is_page ? kv_page_record_bytes(layout, header.n_rows)
                                  : kv_state_record_bytes(layout, header.first_position, header.n_rows);
    return header.record_bytes > most ? kv_record_mismatch("layout") : Status();
  }

  Status add(std::span<const std::byte> record, const KvRecordHeader& header) {
    return header.kind == KvRecordKind::kPage ? add_page(record, header) : add_state(record, header);
  }

  // Moves what was read into the entry, up to the last position at which it can resume.
  Status give(KvCacheEntry& entry) {
    size_t n = ids_.size();
    if (pool_.layout().n_states() > 0) {
      std::erase_if(states_, [&](const StateSnapshot& state) { return state.position > n; });
      size_t reach = 0;
      for (StateSnapshot& state : states_) {
        state.n_rows = state.reach(n) - state.position;
        reach = std::max(reach, state.end());
      }
      n = reach;
    }
    if (n == 0 && !ids_.empty()) return {ErrorCode::kMismatch, path_ + ": no recurrent state to resume from"};
    if (n == 0) return {};
    pages_.resize(KvLayout::pages_for(n));
    return entry.adopt(std::move(pages_), TokenSpan(ids_).first(n), std::move(states_));
  }

 private:
  // After an unusable page, all later pages are unusable too.
  Status add_page(std::span<const std::byte> record, const KvRecordHeader& header) {
    if (is_broken_) return {};
    is_broken_ = true;
    if (ids_.size() % kPagePositions != 0) return {ErrorCode::kMismatch, path_ + ": a page follows a partial page"};
    if (header.first_position != ids_.size()) {
      return {ErrorCode::kMismatch, path_ + ": its pages are not consecutive"};
    }
    const Tokens ids = kv_record_page_ids(record, header);
    TRY_ASSIGN(KvPage page, pool_.allocate());
    TRY_ASSIGN(const DecodedPage read,
               decode_kv_page(record, pool_.layout(), identity_, texts_.back().followed_by(ids), page.parts()));
    if (!rows_are_finite(pool_.layout(), page.parts())) {
      return {ErrorCode::kNonFinite,
              path_ + ": a page at position " + std::to_string(ids_.size()) + " has non-finite values"};
    }
    if (read.parts == KvPageParts::kFirst) pool_.drop_window(page);
    pages_.push_back(std::move(page));
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    texts_.push_back(namer_.next(texts_.back(), ids));
    is_broken_ = false;
    offer_windows();
    return {};
  }

  // Makes window parts of pages (keys and values of layers with a sliding window) evictable, if the window of the last
  // position does not reach back to them.
  void offer_windows() {
    const size_t n = std::max(n_offered_, pool_.layout().first_window_page(ids_.size()));
    pool_.offer_windows(std::span(pages_).subspan(n_offered_, n - n_offered_));
    n_offered_ = n;
  }

  Status add_state(std::span<const std::byte> record, const KvRecordHeader& header) {
    if (states_.size() == kMostSavedStates) return {ErrorCode::kLimitExceeded, path_ + ": too many states"};
    if (header.first_position > ids_.size()) {
      return {ErrorCode::kMismatch,
              path_ + ": a state at position " + std::to_string(header.first_position) + " has no pages before it"};
    }
    const TextName& before = texts_[header.first_position / kPagePositions];
    const TokenSpan ids = TokenSpan(ids_).first(std::min(header.n_tokens(), ids_.size()));
    TRY_ASSIGN(const KvStateCheck check,
               KvStateCheck::open(record, pool_.layout(), identity_, before.followed_by(ids.subspan(before.length))));
    TRY_ASSIGN(StateSnapshot state, check.read_snapshot(pool_, ids.size() - header.first_position,
                                                        [&](uint64_t offset, std::span<std::byte> bytes) {
                                                          std::memcpy(bytes.data(), record.data() + offset,
                                                                      bytes.size());
                                                          return Status();
                                                        }));
    if (!is_finite(pool_.layout(), state)) {
      return {ErrorCode::kNonFinite,
              path_ + ": the state at position " + std::to_string(state.position) + " has non-finite values"};
    }
    states_.push_back(std::move(state));
    return {};
  }

  const KvPageIdentity& identity_;
  KvPagePool& pool_;
  const std::string& path_;
  std::vector<KvPage> pages_;
  Tokens ids_;
  PageNamer namer_{first_half};
  std::vector<TextName> texts_;  // the text before each page, and the whole text
  std::vector<StateSnapshot> states_;
  size_t n_offered_ = 0;  // number of leading pages whose window parts are evictable
  bool is_broken_ = false;
};

}  // namespace

std::vector<StateSnapshot> states_for(const KvCacheEntry& entry, std::span<const size_t> positions) {
  std::vector<StateSnapshot> all(entry.state().kept().begin(), entry.state().kept().end());
  all.push_back(entry.state().now(entry.length()));
  std::vector<StateSnapshot> chosen;
  for (const size_t wanted : positions) {
    const StateSnapshot* best = nullptr;
    const auto rank = [&](const StateSnapshot& state) { return std::pair(state.reach(wanted), state.position); };
    for (const StateSnapshot& state : all) {
      if (state.position > wanted || state.end() == 0) continue;
      if (best == nullptr || rank(state) > rank(*best)) best = &state;
    }
    const auto is_known = [&](const StateSnapshot& state) {
      return state.position == best->position && state.end() >= best->end();
    };
    if (best == nullptr || std::ranges::any_of(chosen, is_known)) continue;
    std::erase_if(chosen, [&](const StateSnapshot& state) { return state.position == best->position; });
    chosen.push_back(*best);
  }
  const KvLayout& layout = entry.layout();
  size_t n_left = KvLayout::pages_for(entry.length()) * layout.page_bytes();
  const auto take_share = [&](const StateSnapshot& state) {
    const size_t bytes = layout.state_bytes() + state.n_rows * layout.state_row_floats() * sizeof(float);
    const bool fits = bytes <= n_left;
    n_left -= std::min(n_left, bytes);
    return fits;
  };
  for (const StateSnapshot& state : chosen) take_share(state);
  std::ranges::sort(all, [](const StateSnapshot& a, const StateSnapshot& b) {
    return std::pair(a.position, a.end()) > std::pair(b.position, b.end());
  });
  for (const StateSnapshot& state : all) {
    if (chosen.size() == kMostSavedStates) break;
    const auto is_there = [&](const StateSnapshot& other) { return other.position == state.position; };
    if (state.position == 0 || std::ranges::any_of(chosen, is_there)) continue;
    if (!take_share(state)) break;
    chosen.push_back(state);
  }
  return chosen;
}

Status write_rows(File& file, const SavedRows& rows) {
  std::vector<std::byte> scratch;
  PageNamer namer(first_half);
  std::vector<TextName> texts{namer.first(rows.identity)};  // the text before each page, and the whole text
  for (TokenSpan rest = rows.entry.tokens(); !rest.empty();
       rest = rest.subspan(std::min(kPagePositions, rest.size()))) {
    const TokenSpan page_ids = rest.first(std::min(kPagePositions, rest.size()));
    TRY(write_page(file, rows, texts.back(), page_ids, scratch));
    texts.push_back(namer.next(texts.back(), page_ids));
  }
  for (const StateSnapshot& state : rows.states) {
    TRY(write_state(file, rows, texts[state.position / kPagePositions], state));
  }
  return {};
}

Status read_rows(File& file, uint64_t offset, const std::string& path, const KvPageIdentity& identity,
                 KvCacheEntry& entry, KvPagePool& pool) {
  TRY_ASSIGN(const uint64_t file_bytes, file.size());
  RowsReader reader(identity, pool, path);
  Status loss;
  const auto note = [&](Status status) {
    if (loss.ok()) loss = std::move(status);
  };
  while (offset < file_bytes) {
    Result<std::vector<std::byte>> fixed = read_record(file, offset, kKvRecordFixedBytes, path);
    if (!fixed.ok()) note(fixed.status());
    if (!fixed.ok()) break;
    const Result<KvRecordHeader> header = parse_kv_record_header(*fixed);
    if (!header.ok()) note(header.status());
    if (!header.ok()) break;
    const Status size = reader.check_size(*header, file_bytes - offset);
    if (!size.ok()) note(size);
    if (!size.ok()) break;
    const Result<std::vector<std::byte>> record = read_record(file, offset, header->record_bytes, path);
    if (!record.ok()) note(record.status());
    if (!record.ok()) break;
    note(reader.add(*record, *header));
    offset += header->record_bytes;
  }
  note(reader.give(entry));
  return loss;
}

}  // namespace ibid
