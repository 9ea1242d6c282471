#include "runtime/session/sequence_cache.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/result.h"
#include "base/token_prefix.h"

namespace ibid {
namespace {

// Minimum number of tokens to prefill for which a prompt is announced to other requests: announcing fewer would cost
// more than prefilling them twice.
constexpr size_t kWorthAnnouncing = kPagePositions;

// Returns an entry that shares the pages of `entry`. Reports errors by exceptions, because it is used in constructors.
KvCacheEntry shared_pages(const KvCacheEntry& entry) {
  Result<KvCacheEntry> fork = entry.fork();
  if (!fork.ok()) throw std::bad_alloc();
  return *std::move(fork);
}

// Returns what was evicted if a search did not find the token at `position`; nullopt: nothing, the token was not
// stored. n_most: the number of found tokens that the caller can use; n_with_state: how many of these are before a
// stored recurrent state.
std::optional<LostCause> cause_of_miss(const PrefixMisses& misses, size_t n_most, size_t n_with_state,
                                       size_t position) {
  if (position < n_with_state) return LostCause::kWindowGone;
  if (position < n_most) return LostCause::kStateGone;
  switch (misses.at(position)) {
    case PrefixMiss::kStateEvicted: return LostCause::kStateGone;
    case PrefixMiss::kWindowEvicted: return LostCause::kWindowGone;
    case PrefixMiss::kNotStored: break;
  }
  return std::nullopt;
}

}  // namespace

SequenceCache::SequenceCache(std::shared_ptr<Engine> engine, std::string name_space)
    : publisher_(std::move(engine), std::move(name_space)) {}

SequenceCache::SequenceCache(const SequenceCache& other)
    : publisher_(other.publisher_),
      idle_(publisher_.store().copy(other.idle_)),
      foreign_(other.foreign_),
      n_computed_before_(other.n_computed_before_),
      prompt_end_(other.prompt_end_),
      may_be_elsewhere_(other.may_be_elsewhere_) {
  CHECK(!other.is_leased());
  if (const auto* entry = std::get_if<KvCacheEntry>(&other.place_)) place_ = shared_pages(*entry);
  if (!other.ahead_) return;
  ahead_ = Prefilled{publisher_.store().copy(other.ahead_->rows), other.ahead_->foreign, other.ahead_->n_transcript,
                     other.ahead_->logits};
}

Result<KvCacheEntry> SequenceCache::held() const {
  if (const auto* entry = std::get_if<KvCacheEntry>(&place_)) return entry->fork();
  return publisher_.store().look_at(idle_);
}

Result<KvCacheEntry> SequenceCache::find_all(TokenSpan ids) const {
  TRY_ASSIGN(KvCacheEntry entry, held());
  if (entry.length() >= n_computed_before_) return entry;
  PrefixPublisher::Found found = publisher_.look_up(ids.first(n_computed_before_), foreign_);
  if (found.length() > entry.length()) entry = std::move(found.entry);
  return entry;
}

void SequenceCache::drop_imported_kv() noexcept {
  if (foreign_ == nullptr) return;
  place_ = InStore();
  idle_ = IdleSequence();
  foreign_.reset();
  if (ahead_ && ahead_->foreign != nullptr) ahead_.reset();
}

size_t SequenceCache::adopt(std::optional<KvCacheEntry> entry, TokenSpan ids) {
  const size_t n_same = entry ? common_prefix_length(entry->tokens(), ids) : 0;
  if (entry) (void)entry->slice_to_at_most(n_same);
  if (ids.empty()) return n_same;
  PrefixPublisher::Found found = publisher_.look_up(ids.first(ids.size() - 1), foreign_);
  if (entry && entry->length() > found.length()) {
    foreign_ = publisher_.new_foreign();
    found.entry = *std::move(entry);
  }
  n_computed_before_ = std::max(found.length(), ids.size() - 1);
  publisher_.insert(found.entry, foreign_, Extent::kAll, &idle_);
  put_back(std::move(found.entry));
  return n_same;
}

void SequenceCache::put_back(KvCacheEntry entry) noexcept {
  publisher_.make_idle(entry, idle_, foreign_);
  if (entry.length() > 0) {
    place_ = std::move(entry);
  } else {
    place_ = InStore();
  }
}

// --- ahead of a turn

Result<std::unique_ptr<PrefillAhead>> SequenceCache::begin_prefill(AheadPrompt prompt, Priority priority,
                                                                   std::stop_token stop, std::shared_ptr<Waker> waker) {
  const TokenSpan ids = prompt.ids;
  if (ids.empty()) return std::unique_ptr<PrefillAhead>();
  Engine& engine = publisher_.engine();
  if (ids.size() > engine.max_seq_len()) {
    return {ErrorCode::kContextFull, "the conversation has " + std::to_string(ids.size()) +
                                         " tokens, the context has room for " + std::to_string(engine.max_seq_len())};
  }
  // Only computing the last token gives logits, so the last token of a whole prompt is always computed.
  const size_t n_most = prompt.is_whole ? ids.size() - 1 : ids.size();
  const size_t n_own = std::min({prompt.n_transcript, n_computed_before_, n_most});
  Usage read;
  read.n_prompt = ids.size();
  TRY_ASSIGN(KvCacheEntry entry, held());
  Foreign from = entry.slice_to_at_most(n_own) > 0 ? foreign_ : nullptr;
  if (PrefixPublisher::Found found = publisher_.look_up(ids.first(n_most), foreign_, stop);
      found.length() > entry.length()) {
    read.n_from_disk = saturating_sub(found.length(), found.n_in_memory);
    entry = std::move(found.entry);
    from = std::move(found.foreign);
  }
  read.n_cached = entry.length();
  read.n_prefilled = ids.size() - entry.length();
  read.n_reprefilled = saturating_sub(n_own, entry.length());
  // Moves the pages to the store as soon as the prefill ends, before end_prefill() is called.
  const auto publish = [this, from](KvCacheEntry& rows, IdleSequence& idle) {
    publisher_.insert(rows, from, Extent::kAll, &idle);
    if (!publisher_.store().make_idle(rows, idle)) rows.slice_to_length(0);
  };
  PrefillAhead::Start start{std::move(entry), std::move(prompt), read, from, engine.state().state_share()};
  auto prefill = std::make_unique<PrefillAhead>(std::move(start), priority, std::move(stop), std::move(waker), publish);
  TRY(prefill->submit(engine.state().scheduler()));
  return prefill;
}

Result<Usage> SequenceCache::end_prefill(PrefillAhead& prefill) {
  prefill.wait();
  if (Status status = prefill.take_status(); !status.ok()) {
    may_be_elsewhere_ = true;
    return status;
  }
  Prefilled next{prefill.take_idle(), prefill.foreign(), prefill.n_transcript(), nullptr};
  if (next.rows.length() < prefill.usage().n_prompt) return out_of_heap();  // no memory for an IdleSequence
  if (prefill.is_whole()) {
    const Logits logits = prefill.take_logits();
    next.logits = std::make_shared<const std::vector<float>>(logits.row(0).begin(), logits.row(0).end());
  }
  ahead_ = std::move(next);
  return prefill.usage();
}

// --- a turn

Result<std::unique_ptr<SequenceCache::Lease>> SequenceCache::checkout(const PromptIds& prompt, Priority priority,
                                                                      std::stop_token stop) {
  CHECK(!is_leased());
  std::unique_ptr<Lease> lease(new Lease(*this));
  if (lease->entry_.length() == 0) TRY(publisher_.store().wake(idle_, lease->entry_));
  TRY(lease->arrange(prompt, priority, std::move(stop)));
  return lease;
}

SequenceCache::Lease::Lease(SequenceCache& cache)
    : cache_(&cache), entry_(cache.publisher_.engine().state().pool()), foreign_(cache.foreign_) {
  if (auto* entry = std::get_if<KvCacheEntry>(&cache.place_)) entry_ = std::move(*entry);
  cache.place_ = Leased();
}

SequenceCache::Lease::~Lease() {
  // In a child of fork() the store belongs to the parent, so do not use it.
  if (cache_ == nullptr || !cache_->publisher_.engine().state().check_process().ok()) return;
  cache_->publisher_.insert(entry_, foreign_);
  cache_->may_be_elsewhere_ = true;
  if (before_) {
    entry_ = *std::move(before_);
  } else {
    (void)entry_.slice_to_at_most(length_before_);  // the next turn prefills again the positions lost here
  }
  cache_->put_back(std::move(entry_));
}

bool SequenceCache::Lease::is_same_prompt(const PromptIds& prompt) const {
  const PromptEnd& end = cache_->prompt_end_;
  return end.logits != nullptr && end.n_tokens == prompt.size() && prompt.n_keep() >= prompt.size();
}

Status SequenceCache::Lease::arrange(const PromptIds& prompt, Priority priority, std::stop_token stop) {
  length_before_ = entry_.length();
  // Sampling the first token of the answer needs the logits of the prompt: unless cached, its last token is computed.
  const size_t n_most = is_same_prompt(prompt) ? prompt.size() : prompt.size() - 1;
  const size_t n_own = std::min({prompt.n_keep(), cache_->n_computed_before_, n_most});  // computed in earlier turns
  size_t n_keep = entry_.resumable_length(std::min(n_own, entry_.length()));
  if (is_same_prompt(prompt) && n_keep == n_most) logits_ = cache_->prompt_end_.logits;
  TRY_ASSIGN(const bool ahead_is_there, take_ahead(prompt, n_keep));

  // While a conversation only grows, no other session has a longer prefix of it, and a search would cost O(length). But
  // evicted KV may be on disk, or another session may have computed it since.
  const bool was_evicted = n_keep < n_own || !ahead_is_there;
  const bool may_be_elsewhere = cache_->may_be_elsewhere_ || was_evicted || n_keep < length_before_;
  if (may_be_elsewhere && logits_ == nullptr && n_keep < prompt.size() - 1) {
    search(prompt, priority, std::move(stop), n_keep);
  }
  if (n_keep < entry_.length()) {
    TRY_ASSIGN(before_, entry_.fork());
    work_.pages_touched += entry_.pages().size();
    n_keep = entry_.slice_to_at_most(n_keep);  // KV of sliding-window layers may have been evicted since
  }
  if (n_keep < prompt.size()) logits_.reset();
  n_reprefilled_ = saturating_sub(n_own, n_keep);
  if (n_reprefilled_ == 0) missing_.reset();
  // The entry keeps only the state at its end: the store owns the other states, and may evict them while the turn runs.
  entry_.state().keep_only_here(entry_.length());
  if (before_) before_->state().clear();
  if (n_keep == 0) foreign_.reset();
  n_found_ = n_keep;
  n_from_disk_ = std::min(n_from_disk_, n_found_);
  n_copied_before_ = entry_.pages_copied();
  return {};
}

Result<bool> SequenceCache::Lease::take_ahead(const PromptIds& prompt, size_t& n_keep) {
  if (!cache_->ahead_) return true;
  const Prefilled& ahead = *cache_->ahead_;
  const size_t n_same = std::min(ahead.n_transcript, prompt.n_keep());
  const size_t n_ahead = prompt.n_common(ahead.rows.tokens(), n_same);
  work_.tokens_compared += saturating_sub(n_ahead, n_same);
  const bool whole = n_ahead == prompt.size() && ahead.logits != nullptr && ahead.rows.length() == n_ahead;
  const size_t n_wanted = whole ? n_ahead : std::min(n_ahead, prompt.size() - 1);
  if (n_wanted <= n_keep) return true;
  TRY_ASSIGN(KvCacheEntry entry, cache_->publisher_.store().look_at(ahead.rows));
  const size_t n = entry.slice_to_at_most(n_wanted);
  if (n > n_keep) {
    if (n == prompt.size()) logits_ = ahead.logits;
    work_.pages_touched += entry.pages().size();
    replace(std::move(entry));
    foreign_ = ahead.foreign;
    n_keep = n;
  }
  return n == n_wanted;
}

void SequenceCache::Lease::search(const PromptIds& prompt, Priority priority, std::stop_token stop, size_t& n_keep) {
  const Tokens ids = prompt.from(0);
  searched_ = true;
  const bool announces = priority != Priority::kLow && foreign_ == nullptr;
  if (announces && ids.size() - n_keep >= kWorthAnnouncing) {
    shared_ = cache_->publisher_.announce();
    shared_->replace = [this](KvCacheEntry longer) {
      replace(std::move(longer));
      before_->state().clear();  // the store owns these states and may evict them meanwhile
      n_copied_before_ = 0;
    };
  }
  PrefixPublisher::Found found = cache_->publisher_.look_up(ids, foreign_, std::move(stop));
  work_.tokens_compared += found.tokens_compared;
  if (found.logits == nullptr && is_same_prompt(prompt) && found.length() == prompt.size()) {
    found.logits = cache_->prompt_end_.logits;
  }
  const size_t n_most = std::min(found.length(), found.logits != nullptr ? prompt.size() : prompt.size() - 1);
  const size_t n_with_state = found.entry.state().resumable_length(n_most, found.length());
  const size_t n = found.entry.slice_to_at_most(n_most);
  missing_ = cause_of_miss(found.misses, n_most, n_with_state, std::max(n, n_keep));
  // Prefers KV that was computed here to imported KV of the same length.
  const bool replaces_foreign = n > 0 && n == n_keep && foreign_ != nullptr && found.foreign == nullptr;
  if (n <= n_keep && !replaces_foreign) return;
  logits_ = found.logits;
  n_from_disk_ = saturating_sub(n, found.n_in_memory);
  work_.pages_touched += found.entry.pages().size();
  replace(std::move(found.entry));
  foreign_ = std::move(found.foreign);
  n_keep = n;
}

void SequenceCache::Lease::replace(KvCacheEntry entry) noexcept {
  if (before_) {
    entry_ = std::move(entry);
  } else {
    before_ = std::exchange(entry_, std::move(entry));
  }
}

void SequenceCache::Lease::keep(Kept kept) noexcept {
  SequenceCache& cache = *std::exchange(cache_, nullptr);
  before_.reset();
  // If a stop string ended the reply, tokens after the cut were computed; drop their KV.
  const size_t n_prompt = std::min(kept.n_prompt, entry_.length());
  const size_t n_same = n_prompt + common_prefix_length(entry_.tokens().subspan(n_prompt), kept.ids.subspan(n_prompt));
  // If KV of tokens that stay was lost too, n_read_ still counts these tokens: the next turn looks them up or prefills
  // them.
  const bool lost_rows = entry_.length() < kept.n_computed;
  cache.n_computed_before_ = lost_rows ? std::min(kept.n_computed, kept.ids.size()) : n_same;
  (void)entry_.slice_to_at_most(n_same);
  cache.foreign_ = std::move(foreign_);
  cache.prompt_end_ = {kept.n_prompt, std::move(kept.logits)};
  cache.ahead_.reset();
  cache.may_be_elsewhere_ = false;
  cache.publisher_.insert(entry_, cache.foreign_, Extent::kAll, &cache.idle_);
  if (searched_ && cache.foreign_ == nullptr) {
    cache.publisher_.publish_prompt(entry_, kept.n_prompt, cache.prompt_end_.logits, kept.first_turn_boundary);
  }
  cache.put_back(std::move(entry_));
}

}  // namespace ibid
