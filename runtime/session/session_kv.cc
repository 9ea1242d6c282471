// Where the keys and values of a session's next prompt come from: what it said and read ahead, where that is still in
// memory, the engine's store and its cache directory; and how they are left to the store when the turn is over.
#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "cache/store/token_prefix.h"
#include "cache/tier/file_tier.h"
#include "runtime/answer/reading_ahead.h"
#include "runtime/out_of_heap.h"
#include "runtime/session/session_state.h"
#include "runtime/stopwatch.h"

namespace ibid {
namespace {

// A prompt whose unread part is shorter is read at once: announcing it costs more than reading it twice.
constexpr size_t kWorthAnnouncing = kPagePositions;

// What is shorter is computed as fast as a file is opened.
constexpr size_t kWorthReadingFromDisk = 16;

// The id at position i of the prompt. REQUIRES: i < delta.n_prompt.
TokenId prompt_id(const PromptDelta& delta, const Transcript& transcript, size_t i) {
  return i < delta.patch.keep_ids ? transcript.ids()[i] : delta.patch.ids[i - delta.patch.keep_ids];
}

// The next user message is not known yet, but the template writes some ids in front of it whatever it says. To find
// them, the prompt is planned with two different messages, and what both plans share is read ahead.
constexpr const char* kProbes[] = {"a", "b"};

// Stands behind the messages while it lives: a copy of them would cost the conversation's length.
struct Probe {
  Probe(Json& m, const char* text) : messages(m) { messages.push_back(text_message("user", text)); }
  ~Probe() { messages.erase(messages.end() - 1); }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  Json& messages;
};

}  // namespace

Tokens ChatSession::State::prompt_ids(const PromptDelta& delta, size_t begin) const {
  const TranscriptPatch& patch = delta.patch;
  Tokens out;
  if (begin < patch.keep_ids) {
    const auto ids = transcript.ids().begin();
    out.assign(ids + static_cast<std::ptrdiff_t>(begin), ids + static_cast<std::ptrdiff_t>(patch.keep_ids));
  }
  const size_t skip = std::max(begin, patch.keep_ids) - patch.keep_ids;
  out.insert(out.end(), patch.ids.begin() + static_cast<std::ptrdiff_t>(skip), patch.ids.end());
  return out;
}

// --- before a turn

Status ChatSession::State::arrange_kv(const PromptDelta& delta, Priority priority, Turn& turn, Arranged& arranged) {
  const Stopwatch watch(engine->clock(), turn.timings.match_ms);
  arranged.length_before = kv.length();
  arranged.foreign_before = foreign;
  // The logits of the last id choose the first token of the answer: where they are not known, it is fed.
  const bool same_prompt =
      prompt_end.logits != nullptr && prompt_end.n_ids == delta.n_prompt && delta.n_keep >= delta.n_prompt;
  const size_t n_most = same_prompt ? delta.n_prompt : delta.n_prompt - 1;
  const size_t n_own = std::min({delta.n_keep, n_read, n_most});  // read by this conversation before
  size_t n_keep = std::min(n_own, kv.length());
  if (same_prompt && n_keep == n_most) arranged.logits = prompt_end.logits;
  TRY_ASSIGN(const bool ahead_is_there, take_ahead(delta, n_keep, turn, arranged));

  // While a conversation only grows, nobody else has more of it, and asking the store would cost the conversation's
  // length. But what memory did not keep may be on disk, or somebody else may have read it since.
  const bool was_evicted = n_keep < n_own || !ahead_is_there;
  const bool may_be_elsewhere = search_store || was_evicted || n_keep < arranged.length_before;
  if (may_be_elsewhere && arranged.logits == nullptr && n_keep < delta.n_prompt - 1) {
    const Tokens prompt = prompt_ids(delta, 0);
    arranged.searched = true;
    const bool announces = priority != Priority::kLow && foreign == nullptr;
    if (announces && prompt.size() - n_keep >= kWorthAnnouncing) arranged.shared = shared_prompt();
    Found found = look_up(prompt, turn.work);
    if (found.logits == nullptr && same_prompt && found.length() == delta.n_prompt) found.logits = prompt_end.logits;
    const size_t n = found.logits != nullptr ? delta.n_prompt : std::min(found.length(), delta.n_prompt - 1);
    // Where both have the same number of rows, those that were computed here are preferred.
    const bool replaces_foreign = n > 0 && n == n_keep && foreign != nullptr && found.foreign == nullptr;
    if (n > n_keep || replaces_foreign) {
      arranged.logits = found.logits;
      turn.usage.n_from_disk = n - std::min(n, found.n_in_memory);
      replace_kv(std::move(found.entry), n, std::move(found.foreign), turn, arranged);
      n_keep = n;
    }
  }
  turn.usage.n_read_again = n_own - std::min(n_own, n_keep);
  if (n_keep < kv.length()) {
    TRY_ASSIGN(arranged.before, kv.fork());
    turn.work.pages_touched += kv.pages().size();
    kv.slice_to_length(n_keep);
  }
  if (n_keep == 0) foreign.reset();
  return {};
}

void ChatSession::State::replace_kv(KvCacheEntry entry, size_t length, Foreign from, Turn& turn,
                                    Arranged& arranged) {
  foreign = std::move(from);
  entry.slice_to_length(length);
  turn.work.pages_touched += entry.pages().size();
  if (arranged.before) {
    kv = std::move(entry);
  } else {
    arranged.before = std::exchange(kv, std::move(entry));
  }
}

Result<bool> ChatSession::State::take_ahead(const PromptDelta& delta, size_t& n_keep, Turn& turn, Arranged& arranged) {
  if (!ahead) return true;
  const size_t n_ahead = n_read_ahead(delta);
  turn.work.tokens_compared += n_ahead - std::min(n_ahead, std::min(ahead->n_transcript, delta.n_keep));
  const bool whole = n_ahead == delta.n_prompt && ahead->logits != nullptr && ahead->rows.length() == n_ahead;
  const size_t n_wanted = whole ? n_ahead : std::min(n_ahead, delta.n_prompt - 1);
  if (n_wanted <= n_keep) return true;
  TRY_ASSIGN(KvCacheEntry entry, engine->store().look_at(ahead->rows));
  const size_t n = std::min(n_wanted, entry.length());
  if (n > n_keep) {
    if (n == delta.n_prompt) arranged.logits = ahead->logits;
    replace_kv(std::move(entry), n, ahead->foreign, turn, arranged);
    n_keep = n;
  }
  return n == n_wanted;
}

size_t ChatSession::State::n_read_ahead(const PromptDelta& delta) const {
  const TokenSpan there = ahead->rows.tokens();
  const size_t end = std::min(there.size(), delta.n_prompt);
  size_t n = std::min({ahead->n_transcript, delta.n_keep, end});
  while (n < end && there[n] == prompt_id(delta, transcript, n)) ++n;
  return n;
}

ChatSession::State::Found ChatSession::State::look_up(TokenSpan ids, WorkCounters& work) const {
  Found found{engine->store().find_longest_prefix(options.cache_namespace, ids)};
  found.n_in_memory = found.length();
  work.tokens_compared += found.length();
  FileTier* tier = engine->tier();
  if (tier != nullptr && ids.size() - found.length() >= kWorthReadingFromDisk) {
    work.tokens_compared += tier->extend(options.cache_namespace, ids, found.entry);
  }
  if (foreign == nullptr) return found;
  PrefixHit own = engine->store().find_longest_prefix(foreign->name(), ids);
  if (own.length() <= found.length()) return found;
  const size_t n_in_memory = own.length();
  return Found{std::move(own), n_in_memory, foreign};
}

// Others find whole pages of an entry that goes on growing. Both functions run on the compute thread, while the turn
// waits for it.
SharedPrompt ChatSession::State::shared_prompt() {
  SharedPrompt shared;
  shared.pending = &engine->pending();
  shared.name_space = options.cache_namespace;
  shared.n_changes = engine->pending().n_changes();
  shared.search = [this](TokenSpan ids) { return engine->store().find_longest_prefix(options.cache_namespace, ids); };
  shared.publish = [this](KvCacheEntry& entry) { register_entry(entry, nullptr, Extent::kFullPages); };
  return shared;
}

// --- between turns

Status ChatSession::State::wake_kv() {
  if (kv.length() > 0) return {};  // the store had no memory for it
  return engine->store().wake(at_rest, kv);
}

void ChatSession::State::rest_kv() noexcept {
  LruKvCacheStore& store = engine->store();
  if (kv.length() == 0 || store.put_to_rest(kv, at_rest)) return;
  // The rows are not where the mark was, because the namespace was cleared or there was no heap memory. If there
  // still is none, the pages stay here until the next turn; to read them again would cost more.
  if (store.insert(namespace_of(foreign), kv, {.rest = &at_rest}).ok()) (void)store.put_to_rest(kv, at_rest);
}

Result<KvCacheEntry> ChatSession::State::held_kv() const {
  return kv.length() > 0 ? kv.fork() : engine->store().look_at(at_rest);
}

// --- so that others find it

// A store that has no room is no reason to fail: its entries are a chance, not a promise.
void ChatSession::State::register_entry(KvCacheEntry& entry, const Foreign& from, Extent extent,
                                        KvAtRest* rest) noexcept {
  if (entry.length() == 0) return;
  const Status status = engine->store().insert(namespace_of(from), entry, {.extent = extent, .rest = rest});
  CHECK(status.ok() || status.code() == ErrorCode::kOutOfMemory) << status.message();
  // Only what a turn has settled goes to disk, not what the turn is about to change.
  if (extent != Extent::kAll || from != nullptr || engine->tier() == nullptr) return;
  engine->tier()->write_behind(options.cache_namespace, entry);
}

const std::string& ChatSession::State::namespace_of(const Foreign& from) const {
  return from != nullptr ? from->name() : options.cache_namespace;
}

void ChatSession::State::forget_foreign_rows() noexcept {
  if (foreign == nullptr) return;
  kv.slice_to_length(0);
  at_rest = KvAtRest();
  foreign.reset();
  if (ahead && ahead->foreign != nullptr) ahead.reset();
}

// O(prompt), as the search was that this turn began with.
void ChatSession::State::tell_what_others_may_want() noexcept {
  LruKvCacheStore& store = engine->store();
  if (prompt_end.logits != nullptr && prompt_end.n_ids <= kv.length()) {
    // Without room for them an exact repeat feeds one id.
    (void)store.remember_logits(options.cache_namespace, kv.tokens().first(prompt_end.n_ids), *prompt_end.logits);
  }
  const size_t n_opening = n_opening_ids();
  if (n_opening < kPagePositions || n_opening > kv.length()) return;
  Result<KvCacheEntry> opening = kv.fork();
  if (!opening.ok()) return;
  opening->slice_to_length(n_opening);
  (void)store.insert(options.cache_namespace, *opening,
                     {.extent = Extent::kFullPages, .retention = Retention::kPrefix});
}

size_t ChatSession::State::n_opening_ids() const {
  const std::vector<TranscriptSpan>& spans = transcript.spans();
  size_t i = 0;
  const auto skip = [&](SpanOrigin origin) {
    while (i < spans.size() && spans[i].origin == origin) ++i;
  };
  skip(SpanOrigin::kTemplate);
  if (!options.system.empty()) {
    skip(SpanOrigin::kInput);
    skip(SpanOrigin::kTemplate);
  }
  return i < spans.size() && spans[i].origin == SpanOrigin::kInput ? spans[i].id_begin : 0;
}

// --- ahead of a turn

Result<Usage> ChatSession::State::read_ahead(Priority priority, std::stop_token stop) try {
  TRY_ASSIGN(const std::unique_ptr<ReadingAhead> reading, begin_reading_ahead(priority, std::move(stop)));
  if (reading == nullptr) return Usage{};
  return end_reading(*reading);
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

Result<std::unique_ptr<ReadingAhead>> ChatSession::State::begin_reading_ahead(Priority priority,
                                                                              std::stop_token stop) {
  Turn unused;
  if (awaits_answer()) {
    TRY_ASSIGN(const PromptDelta delta, planner.plan(messages, transcript, unused.work, unused.timings));
    planner.given_up(delta);
    return begin_reading(delta, prompt_ids(delta, 0), true, priority, std::move(stop));
  }
  std::optional<PromptDelta> first;
  Tokens certain;
  for (const char* text : kProbes) {
    const Probe probe(messages, text);
    TRY_ASSIGN(PromptDelta delta, planner.plan(messages, transcript, unused.work, unused.timings));
    planner.given_up(delta);
    planner.messages_changed_from(messages.size() - 1);
    Tokens ids = prompt_ids(delta, 0);
    if (first) certain.resize(common_prefix_length(certain, ids));
    if (!first) certain = std::move(ids), first = std::move(delta);
  }
  return begin_reading(*first, std::move(certain), false, priority, std::move(stop));
}

// Reads `ids`, the first ones of a planned prompt.
Result<std::unique_ptr<ReadingAhead>> ChatSession::State::begin_reading(const PromptDelta& delta, Tokens ids,
                                                                        bool is_whole, Priority priority,
                                                                        std::stop_token stop) {
  if (ids.empty()) return std::unique_ptr<ReadingAhead>();
  if (ids.size() > engine->max_seq_len()) {
    return {ErrorCode::kContextFull, "the conversation has " + std::to_string(ids.size()) +
                                         " tokens, the context has room for " + std::to_string(engine->max_seq_len())};
  }
  // Logits come with the last id only, so a whole prompt's last id is fed anew.
  const size_t n_most = is_whole ? ids.size() - 1 : ids.size();
  const size_t n_transcript = std::min(delta.n_keep, ids.size());
  const size_t n_own = std::min({n_transcript, n_read, n_most});
  Usage read;
  read.n_prompt = ids.size();
  TRY_ASSIGN(KvCacheEntry entry, held_kv());
  entry.slice_to_length(std::min(n_own, entry.length()));
  Foreign from = entry.length() > 0 ? foreign : nullptr;
  WorkCounters unused;
  if (Found found = look_up(TokenSpan(ids).first(n_most), unused); found.length() > entry.length()) {
    read.n_from_disk = found.length() - found.n_in_memory;
    entry = std::move(found.entry);
    from = std::move(found.foreign);
  }
  read.n_cached = entry.length();
  read.n_prefilled = ids.size() - entry.length();
  read.n_read_again = n_own - std::min(n_own, entry.length());
  // The pages are the store's as soon as they are read, whoever comes when for the rest.
  const auto leave = [this, from](KvCacheEntry& rows, KvAtRest& rest) {
    register_entry(rows, from, Extent::kAll, &rest);
    if (!engine->store().put_to_rest(rows, rest)) rows.slice_to_length(0);
  };
  auto reading = std::make_unique<ReadingAhead>(std::move(entry), std::move(ids), n_transcript, is_whole, read,
                                                from, priority, std::move(stop), leave);
  TRY(reading->submit(engine->scheduler()));
  return reading;
}

Result<Usage> ChatSession::State::end_reading(ReadingAhead& reading) {
  reading.wait();
  if (Status status = reading.take_status(); !status.ok()) {
    search_store = true;
    return status;
  }
  ReadAhead next{reading.take_rows(), reading.foreign(), reading.n_transcript(), nullptr};
  if (next.rows.length() < reading.usage().n_prompt) return out_of_heap();  // the store had no memory for a mark
  if (reading.is_whole()) {
    const Logits logits = reading.take_logits();
    next.logits = std::make_shared<const std::vector<float>>(logits.row(0).begin(), logits.row(0).end());
  }
  ahead = std::move(next);
  return reading.usage();
}

bool ChatSession::State::rewrites_history() noexcept try {
  Turn unused;
  const Probe probe(messages, kProbes[0]);
  const Result<PromptDelta> delta = planner.plan(messages, transcript, unused.work, unused.timings);
  if (!delta.ok()) return false;  // the template refuses a user message here, so nothing can be said
  planner.given_up(*delta);
  planner.messages_changed_from(messages.size() - 1);
  return delta->n_keep < n_read;
} catch (const std::bad_alloc&) {
  return false;
}

// Without memory for it, the next turn reads it.
void ChatSession::State::start_idle_work() noexcept try {
  idle_stop_ = std::stop_source();
  Result<std::unique_ptr<ReadingAhead>> reading = begin_reading_ahead(Priority::kLow, idle_stop_.get_token());
  if (reading.ok()) idle_ = *std::move(reading);
} catch (const std::bad_alloc&) {
}

void ChatSession::State::stop_idle_work() noexcept try {
  const std::unique_ptr<ReadingAhead> reading = std::move(idle_);
  if (reading == nullptr) return;
  idle_stop_.request_stop();
  (void)end_reading(*reading);
} catch (const std::bad_alloc&) {
}

}  // namespace ibid
