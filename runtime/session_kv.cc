// Where the keys and values of a session's next prompt come from: the session itself, what it read ahead, the
// engine's store; and how others come to find them.
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
  size_t n_keep = std::min({delta.n_keep, kv.length(), n_most});
  if (same_prompt && n_keep == n_most) arranged.logits = prompt_end.logits;

  const auto replace_kv = [&](KvCacheEntry entry, size_t length) {
    entry.slice_to_length(length);
    turn.work.pages_touched += entry.pages().size();
    if (arranged.before) {
      kv = std::move(entry);
    } else {
      arranged.before = std::exchange(kv, std::move(entry));
    }
    n_keep = length;
  };
  if (ahead) {
    const size_t n_ahead = n_read_ahead(delta);
    turn.work.tokens_compared += n_ahead - std::min(n_ahead, std::min(ahead->n_transcript, delta.n_keep));
    const bool whole = n_ahead == delta.n_prompt && ahead->logits != nullptr && ahead->entry.length() == n_ahead;
    if (const size_t n = whole ? n_ahead : std::min(n_ahead, delta.n_prompt - 1); n > n_keep) {
      if (whole) arranged.logits = ahead->logits;
      TRY_ASSIGN(KvCacheEntry entry, ahead->entry.fork());
      replace_kv(std::move(entry), n);
    }
  }
  // While a conversation only grows nobody knows more of it than itself, and asking would cost its length.
  const bool may_be_elsewhere = search_store || n_keep < arranged.length_before;
  if (may_be_elsewhere && arranged.logits == nullptr && n_keep < delta.n_prompt - 1) {
    const Tokens prompt = prompt_ids(delta, 0);
    arranged.searched = true;
    if (priority != Priority::kLow && prompt.size() - n_keep >= kWorthAnnouncing) {
      arranged.reading = std::make_unique<PendingPrefixes::Reading>(engine->pending(), options.cache_namespace, prompt);
    }
    PrefixHit hit = find_stored(prompt, n_keep, std::move(stop), arranged, turn.work);
    const size_t n = hit.logits != nullptr ? delta.n_prompt : std::min(hit.length(), delta.n_prompt - 1);
    if (n > n_keep) {
      arranged.logits = hit.logits;
      replace_kv(std::move(hit.entry), n);
    }
  }
  if (n_keep < kv.length()) {
    TRY_ASSIGN(arranged.before, kv.fork());
    turn.work.pages_touched += kv.pages().size();
    kv.slice_to_length(n_keep);
  }
  return {};
}

size_t ChatSession::State::n_read_ahead(const PromptDelta& delta) const {
  const TokenSpan there = ahead->entry.tokens();
  const size_t end = std::min(there.size(), delta.n_prompt);
  size_t n = std::min({ahead->n_transcript, delta.n_keep, end});
  while (n < end && there[n] == prompt_id(delta, transcript, n)) ++n;
  return n;
}

PrefixHit ChatSession::State::look_up(TokenSpan ids, WorkCounters& work) {
  PrefixHit hit = engine->store().find_longest_prefix(options.cache_namespace, ids);
  work.tokens_compared += hit.length();
  FileTier* tier = engine->tier();
  if (tier != nullptr && ids.size() - hit.length() >= kWorthReadingFromDisk) {
    work.tokens_compared += tier->extend(options.cache_namespace, ids, hit.entry);
  }
  return hit;
}

PrefixHit ChatSession::State::find_stored(const Tokens& prompt, size_t n_held, std::stop_token stop,
                                          Arranged& arranged, WorkCounters& work) {
  PrefixHit best = look_up(prompt, work);
  using Waited = PendingPrefixes::Waited;
  while (arranged.reading) {
    const Waited waited = arranged.reading->wait_for_earlier(std::max(n_held, best.length()), stop);
    if (waited == Waited::kNothing || waited == Waited::kStopped) break;
    PrefixHit more = look_up(prompt, work);
    // What was published and is not there the store had no room for; of one that was given up the next in line may
    // read more.
    if (more.length() <= best.length() && waited == Waited::kPublished) break;
    if (more.length() > best.length()) best = std::move(more);
  }
  return best;
}

// --- so that others find it

// A store that has no room is no reason to fail: its entries are a chance, not a promise.
void ChatSession::State::register_entry(KvCacheEntry& entry, Extent extent) noexcept {
  if (entry.length() == 0) return;
  const Status status = engine->store().insert(options.cache_namespace, entry, {.extent = extent});
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
  TRY_ASSIGN(KvCacheEntry entry, kv.fork());
  entry.slice_to_length(std::min({n_transcript, kv.length(), n_most}));
  WorkCounters unused;
  if (PrefixHit hit = look_up(TokenSpan(ids).first(n_most), unused); hit.length() > entry.length()) {
    entry = std::move(hit.entry);
  }
  read.n_cached = entry.length();
  read.n_prefilled = ids.size() - entry.length();
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
  register_entry(entry);
  PromptLogits last;
  if (is_whole) last = std::make_shared<const std::vector<float>>(logits.row(0).begin(), logits.row(0).end());
  ahead = ReadAhead{std::move(entry), n_transcript, std::move(last)};
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
  return delta->n_keep < kv.length();
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
