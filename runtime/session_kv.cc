// Where the keys and values of a session's next prompt come from: what it said and read ahead, where that is still in
// memory, the engine's store and its cache directory; and how they are left to the store when the turn is over.
#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "cache/file_tier.h"
#include "cache/token_prefix.h"
#include "runtime/out_of_heap.h"
#include "runtime/session_state.h"
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

// Of what follows the history the next prompt has for certain only what does not depend on what the user says.
constexpr const char* kProbes[] = {"a", "b"};

Json with_probe(const Json& messages, const char* text) {
  Json probed = messages;
  probed.push_back(text_message("user", text));
  return probed;
}

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

Status ChatSession::State::arrange_kv(const PromptDelta& delta, Priority priority, std::stop_token stop, Turn& turn,
                                      Arranged& arranged) {
  const Stopwatch watch(engine->clock(), turn.timings.match_ms);
  arranged.length_before = kv.length();
  // The logits of the last id choose the first token of the answer: where they are not known, it is fed.
  const bool same_prompt =
      prompt_end.logits != nullptr && prompt_end.n_ids == delta.n_prompt && delta.n_keep >= delta.n_prompt;
  const size_t n_most = same_prompt ? delta.n_prompt : delta.n_prompt - 1;
  const size_t n_own = std::min({delta.n_keep, n_read, n_most});  // read by this conversation before
  size_t n_keep = std::min(n_own, kv.length());
  if (same_prompt && n_keep == n_most) arranged.logits = prompt_end.logits;
  TRY_ASSIGN(const bool ahead_is_there, take_ahead(delta, n_keep, turn, arranged));

  // While a conversation only grows nobody knows more of it than itself, and asking would cost its length. But what
  // memory did not keep may be on disk, or somebody else has read it since.
  const bool was_evicted = n_keep < n_own || !ahead_is_there;
  const bool may_be_elsewhere = search_store || was_evicted || n_keep < arranged.length_before;
  if (may_be_elsewhere && arranged.logits == nullptr && n_keep < delta.n_prompt - 1) {
    const Tokens prompt = prompt_ids(delta, 0);
    arranged.searched = true;
    if (priority != Priority::kLow && prompt.size() - n_keep >= kWorthAnnouncing) {
      arranged.reading = std::make_unique<PendingPrefixes::Reading>(engine->pending(), options.cache_namespace, prompt);
    }
    Found found = find_stored(prompt, n_keep, std::move(stop), arranged, turn.work);
    if (found.logits == nullptr && same_prompt && found.length() == delta.n_prompt) found.logits = prompt_end.logits;
    const size_t n = found.logits != nullptr ? delta.n_prompt : std::min(found.length(), delta.n_prompt - 1);
    if (n > n_keep) {
      arranged.logits = found.logits;
      turn.usage.n_from_disk = n - std::min(n, found.n_in_memory);
      replace_kv(std::move(found.entry), n, turn, arranged);
      n_keep = n;
    }
  }
  turn.usage.n_read_again = n_own - std::min(n_own, n_keep);
  if (n_keep < kv.length()) {
    TRY_ASSIGN(arranged.before, kv.fork());
    turn.work.pages_touched += kv.pages().size();
    kv.slice_to_length(n_keep);
  }
  return {};
}

void ChatSession::State::replace_kv(KvCacheEntry entry, size_t length, Turn& turn, Arranged& arranged) {
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
    replace_kv(std::move(entry), n, turn, arranged);
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
  return found;
}

ChatSession::State::Found ChatSession::State::find_stored(const Tokens& prompt, size_t n_held, std::stop_token stop,
                                                          Arranged& arranged, WorkCounters& work) {
  Found best = look_up(prompt, work);
  using Waited = PendingPrefixes::Waited;
  while (arranged.reading) {
    const Waited waited = arranged.reading->wait_for_earlier(std::max(n_held, best.length()), stop);
    if (waited == Waited::kNothing || waited == Waited::kStopped) break;
    Found more = look_up(prompt, work);
    // What was published and is not there the store had no room for; of one that was given up the next in line may
    // read more.
    if (more.length() <= best.length() && waited == Waited::kPublished) break;
    if (more.length() > best.length()) best = std::move(more);
  }
  return best;
}

// --- between turns

Status ChatSession::State::wake_kv() {
  if (kv.length() > 0) return {};  // the store had no memory for it
  return engine->store().wake(at_rest, kv);
}

void ChatSession::State::rest_kv() noexcept {
  LruKvCacheStore& store = engine->store();
  if (kv.length() == 0 || store.put_to_rest(kv, at_rest)) return;
  // Its rows are not where the mark was: the namespace was cleared, or there was no heap memory. Where there still is
  // none the pages stay here until the next turn: to be read again would be worse.
  if (store.insert(options.cache_namespace, kv, {.rest = &at_rest}).ok()) (void)store.put_to_rest(kv, at_rest);
}

Result<KvCacheEntry> ChatSession::State::held_kv() const {
  return kv.length() > 0 ? kv.fork() : engine->store().look_at(at_rest);
}

// --- so that others find it

// A store that has no room is no reason to fail: its entries are a chance, not a promise.
void ChatSession::State::register_entry(KvCacheEntry& entry, Extent extent, KvAtRest* rest) noexcept {
  if (entry.length() == 0) return;
  const Status status = engine->store().insert(options.cache_namespace, entry, {.extent = extent, .rest = rest});
  CHECK(status.ok() || status.code() == ErrorCode::kOutOfMemory) << status.message();
  // To disk goes what a turn has settled, not what it is about to change.
  if (extent == Extent::kAll && engine->tier() != nullptr) engine->tier()->write_behind(options.cache_namespace, entry);
}

void ChatSession::State::publish_pages(KvCacheEntry& entry, PendingPrefixes::Reading* reading) {
  register_entry(entry, Extent::kFullPages);
  if (reading != nullptr) reading->published(entry.length() / kPagePositions * kPagePositions);
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
  Turn unused;
  if (awaits_answer()) {
    TRY_ASSIGN(const PromptDelta delta, planner.plan(messages, transcript, unused.work, unused.timings));
    planner.given_up(delta);
    return read_prompt(delta, prompt_ids(delta, 0), true, priority, std::move(stop));
  }
  std::optional<PromptDelta> first;
  Tokens certain;
  for (const char* probe : kProbes) {
    TRY_ASSIGN(PromptDelta delta, planner.plan(with_probe(messages, probe), transcript, unused.work, unused.timings));
    planner.given_up(delta);
    planner.messages_changed_from(messages.size());
    Tokens ids = prompt_ids(delta, 0);
    if (first) certain.resize(common_prefix_length(certain, ids));
    if (!first) certain = std::move(ids), first = std::move(delta);
  }
  return read_prompt(*first, certain, false, priority, std::move(stop));
} catch (const std::bad_alloc&) {
  return out_of_heap();
}

// Reads `ids`, the first ones of a planned prompt, into `ahead`.
Result<Usage> ChatSession::State::read_prompt(const PromptDelta& delta, const Tokens& ids, bool is_whole,
                                              Priority priority, std::stop_token stop) {
  Usage read;
  read.n_prompt = ids.size();
  if (ids.empty()) return read;
  if (ids.size() > engine->max_seq_len()) {
    return {ErrorCode::kContextFull, "the conversation has " + std::to_string(ids.size()) +
                                         " tokens, the context has room for " + std::to_string(engine->max_seq_len())};
  }
  // Logits come with the last id only, so a whole prompt's last id is fed anew.
  const size_t n_most = is_whole ? ids.size() - 1 : ids.size();
  const size_t n_transcript = std::min(delta.n_keep, ids.size());
  const size_t n_own = std::min({n_transcript, n_read, n_most});
  TRY_ASSIGN(KvCacheEntry entry, held_kv());
  entry.slice_to_length(std::min(n_own, entry.length()));
  WorkCounters unused;
  if (Found found = look_up(TokenSpan(ids).first(n_most), unused); found.length() > entry.length()) {
    read.n_from_disk = found.length() - found.n_in_memory;
    entry = std::move(found.entry);
  }
  read.n_cached = entry.length();
  read.n_prefilled = ids.size() - entry.length();
  read.n_read_again = n_own - std::min(n_own, entry.length());
  Scheduler::Stream stream(engine->scheduler(), priority);
  Logits logits;
  for (size_t done = entry.length(); done < ids.size();) {
    const WantLogits want = is_whole ? WantLogits::kLast : WantLogits::kNone;
    const Result<size_t> n = stream.forward(entry, TokenSpan(ids).subspan(done), want, stop, logits);
    if (!n.ok()) {
      register_entry(entry);
      search_store = true;
      return n.status();
    }
    done += *n;
  }
  ReadAhead next;
  next.n_transcript = n_transcript;
  if (is_whole) next.logits = std::make_shared<const std::vector<float>>(logits.row(0).begin(), logits.row(0).end());
  register_entry(entry, Extent::kAll, &next.rows);
  if (!engine->store().put_to_rest(entry, next.rows)) return out_of_heap();
  ahead = std::move(next);
  return read;
}

bool ChatSession::State::rewrites_history() noexcept try {
  Turn unused;
  // After every turn: a copy of the messages would cost the conversation's length.
  struct Probe {
    explicit Probe(Json& m) : messages(m) { messages.push_back(text_message("user", kProbes[0])); }
    ~Probe() { messages.erase(messages.end() - 1); }
    Json& messages;
  };
  const Probe probe(messages);
  const Result<PromptDelta> delta = planner.plan(messages, transcript, unused.work, unused.timings);
  if (!delta.ok()) return false;  // of such a message this template wants to know nothing
  planner.given_up(*delta);
  planner.messages_changed_from(messages.size() - 1);
  return delta->n_keep < n_read;
} catch (const std::bad_alloc&) {
  return false;
}

void ChatSession::State::start_idle_work() noexcept {
  const auto read = [this](std::stop_token stop) {
    try {
      (void)read_ahead(Priority::kLow, std::move(stop));
    } catch (const std::bad_alloc&) {
      // The next turn reads it.
    }
  };
  try {
    idle_ = std::jthread(read);
  } catch (const std::system_error&) {
    // No thread to be had: likewise.
  } catch (const std::bad_alloc&) {
  }
}

void ChatSession::State::stop_idle_work() {
  if (!idle_.joinable()) return;
  idle_.request_stop();
  idle_.join();
}

}  // namespace ibid
