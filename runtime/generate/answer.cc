#include "runtime/generate/answer.h"

#include <algorithm>
#include <new>
#include <string>

#include "base/check.h"
#include "base/clock.h"
#include "base/result.h"
#include "kernels/kernels.h"

namespace ibid {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kStopString: return "stop_string";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kRepetition: return "repetition";
  }
  return "unknown";
}

namespace {

// `expected` has the likely first tokens of the answer. Returns those after `id`, the token sampled last; at most as
// many as can be fed at once. If `id` is not the expected token, clears `expected`.
TokenSpan expected_after(TokenId id, size_t n_sampled, Tokens& expected) {
  if (n_sampled >= expected.size() || expected[n_sampled - 1] != id) {
    expected.clear();
    return {};
  }
  return TokenSpan(expected).subspan(n_sampled, std::min(expected.size() - n_sampled, kDecodeRows - 1));
}

}  // namespace

Answer::Answer(Setting setting, KvCacheEntry& entry, GenerateRequest request, Sampler sampler, StopDetector stops,
               std::shared_ptr<Waker> waker)
    : Task(request.priority, request.stop, std::move(waker)),
      tokenizer_(setting.tokenizer),
      model_(setting.model),
      clock_(setting.clock),
      entry_(entry),
      request_(std::move(request)),
      sampler_(std::move(sampler)),
      stops_(std::move(stops)),
      n_prompt_(request_.prompt_begin + request_.prompt.size()),
      n_before_answer_(sampler_.history().size()),
      n_drafter_(request_.drafter == nullptr ? 0 : request_.drafter->size()),
      policy_before_(request_.drafter == nullptr ? DraftPolicy() : request_.drafter->policy()),
      next_tokens_(request_.constraint, request_.stop_ids, request_.min_tokens),
      reply_(tokenizer_, stops_, request_.shown_tokens, !request_.continues),
      n_steps_before_(sampler_.history().n_steps()),
      mark_ns_(clock_.steady_ns()) {
  CHECK(request_.max_tokens > 0);
  CHECK(request_.prompt_begin <= entry_.length());
  CHECK(!unread().empty() || request_.prompt_logits != nullptr);
  now_.length = entry_.length();
}

// --- compute thread: what to feed next

Task::Action Answer::next(SequenceChunk& chunk) noexcept {
  try {
    if (stage_ != Stage::kOver && is_cancelled()) end_cancelled();
    if (stage_ == Stage::kNew) start();
    if (stage_ == Stage::kWaiting) wait_for_others();
  } catch (const std::bad_alloc&) {
    break_off();
  }
  switch (stage_) {
    case Stage::kReading: chunk = next_part(); return Action::kFeed;
    case Stage::kDecoding:
      chunk = {&entry_, fed_, draft_.empty() ? WantLogits::kLast : WantLogits::kAll};
      return Action::kFeed;
    case Stage::kOver: return Action::kOver;
    case Stage::kNew:
    case Stage::kWaiting: break;
  }
  return Action::kWait;
}

TokenSpan Answer::unread() const { return TokenSpan(request_.prompt).subspan(entry_.length() - request_.prompt_begin); }

// Returns the prompt's tokens up to the next checkpoint, or to the end.
SequenceChunk Answer::next_part() const {
  const TokenSpan rest = unread();
  const size_t n = request_.checkpoints.next(entry_.length(), entry_.length() + rest.size()) - entry_.length();
  return {&entry_, rest.first(n), n == rest.size() ? WantLogits::kLast : WantLogits::kNone};
}

void Answer::start() {
  const size_t n_prompt = request_.prompt_begin + request_.prompt.size();
  if (n_prompt > model_.max_seq_len()) {
    return end({ErrorCode::kContextFull, "the prompt has " + std::to_string(n_prompt) +
                                             " tokens, the context has room for " +
                                             std::to_string(model_.max_seq_len())});
  }
  if (!request_.shared) return begin_reading();
  const SharedPrompt& shared = *request_.shared;
  pending_prefill_ =
      std::make_unique<PendingPrefixes::PendingPrefill>(*shared.pending, shared.name_space, request_.prompt);
  stage_ = Stage::kWaiting;
}

void Answer::wait_for_others() {
  using Earlier = PendingPrefixes::Earlier;
  for (;;) {
    const size_t n_held = entry_.length();
    const Earlier earlier = pending_prefill_->earlier_state(n_held);
    if (earlier == Earlier::kPrefilling) return;
    const bool may_find_more =
        earlier != Earlier::kNothing || request_.shared->pending->n_changes() != request_.shared->n_changes;
    if (may_find_more) search();
    // If a published prefix is not found, it did not fit into the store, so this answer prefills it. If the answer that
    // was prefilling it gave up, the next waiting answer may still publish more, so check again.
    if (earlier == Earlier::kNothing || (earlier == Earlier::kPublished && entry_.length() <= n_held)) break;
  }
  take_time(now_.timings.match_ms);
  begin_reading();
}

// Searches the store, and takes the found entry if it is longer than entry_.
void Answer::search() {
  SharedPrompt& shared = *request_.shared;
  shared.n_changes = shared.pending->n_changes();
  PrefixHit hit = shared.search(request_.prompt);
  now_.work.tokens_compared += hit.length();
  // Logits come only from computing the last token, so it is computed unless its logits are cached.
  const size_t n_most = hit.logits != nullptr ? hit.length() : std::min(hit.length(), request_.prompt.size() - 1);
  if (n_most <= entry_.length()) return;
  if (hit.entry.slice_to_at_most(n_most) <= entry_.length()) return;
  now_.work.pages_touched += hit.entry.pages().size();
  request_.prompt_logits = hit.entry.length() == request_.prompt.size() ? hit.logits : nullptr;
  shared.replace(std::move(hit.entry));
}

void Answer::begin_reading() {
  n_cached_ = now_.length = entry_.length();
  stage_ = Stage::kReading;
  if (unread().empty()) begin_decoding();
}

// --- compute thread: results of a pass

// Publishes full pages. With recurrent layers, other prompts resume only at checkpoints, and some checkpoints may be
// after the last full page. In two cases all positions are published: a waiting prompt needs such a checkpoint; or the
// prompt is complete and the checkpoint before the first user message is one of these, at which other conversations
// with the same beginning resume.
void publish(const SharedPrompt& shared, PendingPrefixes::PendingPrefill& pending_prefill, KvCacheEntry& entry,
             const CheckpointPositions& checkpoints, size_t n_unread) {
  const size_t n = entry.length(), n_pages = n / kPagePositions * kPagePositions;
  if (entry.layout().n_states() == 0) {
    shared.publish(entry, false);
    return pending_prefill.published(n_pages);
  }
  const bool is_end = n_unread == 0;
  const size_t border = is_end ? n : checkpoints.last(n);
  const size_t next = is_end ? n + 1 : checkpoints.next(n, n + n_unread);
  const size_t hidden = checkpoints.next(n_pages, border);  // the first checkpoint after the full pages
  const bool is_wanted = is_end && checkpoints.first_turn_boundary() > n_pages;
  const bool with_last_page =
      n_pages < border && border == n && (is_wanted || pending_prefill.is_awaited(hidden, next));
  const size_t n_found = shared.publish(entry, with_last_page) ? n : n_pages;
  // A longer prefix becomes available only at the next checkpoint, so waiters need not wake before.
  if (border > 0) pending_prefill.published(border <= n_found ? next - 1 : hidden - 1);
}

void Answer::computed(size_t n_rows, Status status, const LogitsRows& rows) noexcept try {
  if (stage_ == Stage::kReading) {
    take_time(now_.timings.prefill_ms);
    if (status.ok()) return read(n_rows, rows);
    return status.code() == ErrorCode::kCancelled ? end_cancelled() : end(std::move(status));
  }
  take_time(now_.timings.decode_ms);
  if (!status.ok()) return pass_failed(std::move(status));
  CHECK_EQ(n_rows, fed_.size()) << "a draft is fed as a whole";
  ++now_.work.n_forward;
  now_.work.n_rows += n_rows;
  ++now_.length;
  now_.n_drafts += draft_.empty() ? 0 : 1;
  now_.n_drafted += draft_.size();
  decode(rows.row(0), &rows);
} catch (const std::bad_alloc&) {
  break_off();
}

void Answer::read(size_t n_rows, const LogitsRows& rows) {
  ++now_.work.n_forward;
  now_.work.n_rows += n_rows;
  now_.length = entry_.length();
  request_.checkpoints.keep(entry_, unread().empty());
  if (pending_prefill_ != nullptr)
    publish(*request_.shared, *pending_prefill_, entry_, request_.checkpoints, unread().size());
  emit({.kind = TurnEvent::Kind::kPrefill, .n_done = entry_.length(), .n_total = n_prompt_, .n_cached = n_cached_});
  if (!unread().empty()) return;
  const std::span<const float> row = rows.row(0);
  request_.prompt_logits = std::make_shared<const std::vector<float>>(row.begin(), row.end());
  begin_decoding();
}

void Answer::begin_decoding() {
  pending_prefill_.reset();
  stage_ = Stage::kDecoding;
  out_.prompt_logits = request_.prompt_logits;
  decode(*out_.prompt_logits, nullptr);
}

// Samples from `row`, and from the following rows as long as the sampled tokens equal the draft.
void Answer::decode(std::span<const float> row, const LogitsRows* rows) {
  for (size_t i = 0;;) {
    if (is_cancelled()) return end_cancelled();
    TokenId id = 0;
    if (!sample(row, id)) return;
    if (now_.n_sampled == request_.max_tokens || now_.length == model_.max_seq_len()) return end(FinishReason::kLength);
    if (i == draft_.size() || draft_[i] != id) return draft_after(id);
    ++now_.length;
    ++now_.n_accepted;
    row = rows->row(++i);
  }
}

// Samples a token and decodes it to text.
bool Answer::sample(std::span<const float> row, TokenId& id) {
  // Elements beyond the vocabulary come from padding of the weights.
  row = row.first(std::min(row.size(), tokenizer_.vocab_size()));
  Result<std::span<const float>> allowed = next_tokens_.restrict(row);
  if (!allowed.ok()) return end(allowed.status()), false;
  Result<TokenId> drawn = sampler_.sample(*allowed);
  if (!drawn.ok()) return end(drawn.status()), false;
  id = *drawn;
  sampler_.push(id);
  next_tokens_.push(id);
  sampled_.push_back(id);
  if (++now_.n_sampled == 1) now_.timings.ttft_ms = milliseconds_since(clock_, request_.start_ns);
  if (request_.drafter != nullptr) request_.drafter->push(id);
  const bool ends_turn = next_tokens_.is_stop_id(id);
  if (ends_turn) {
    out_.end_of_turn = id;
  } else if (request_.n_logprobs) {
    const size_t n_top = *request_.n_logprobs;
    logprobs_.add(!request_.logprob_token_ids.empty() ? token_logprobs(row, id, request_.logprob_token_ids)
                  : request_.logprobs_after_sampling  ? sampler_.drawn_logprobs(id, n_top)
                                                      : token_logprobs(row, id, n_top));
  }
  const bool repeats = !ends_turn && request_.stop_repetition && repetition_.push(id);
  const bool ends = ends_turn || reply_.push(id) || repeats;
  take_time(now_.timings.sample_ms);
  emit_text(reply_.text());
  if (ends) end(repeats ? FinishReason::kRepetition : FinishReason::kStop);
  return !ends;
}

void Answer::draft_after(TokenId id) {
  entry_.slice_to_length(now_.length);  // drop the KV of rejected drafts
  const size_t n_most = n_drafts_at_most();
  const TokenSpan expected = expected_after(id, now_.n_sampled, request_.expected);
  draft_.assign(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(std::min(expected.size(), n_most)));
  if (draft_.empty() && request_.drafter != nullptr) next_tokens_.propose(*request_.drafter, n_most, draft_);
  fed_.assign(1, id);
  fed_.insert(fed_.end(), draft_.begin(), draft_.end());
}

// Returns the maximum length of a draft: draft and last token fit into max_tokens, the context, one pass, and the page
// that the last token needs anyway.
size_t Answer::n_drafts_at_most() const {
  const size_t n_rows = std::min({request_.max_tokens - now_.n_sampled, model_.max_seq_len() - now_.length,
                                  kPagePositions - now_.length % kPagePositions, model_.max_chunk()});
  return n_rows - 1;
}

void Answer::pass_failed(Status status) {
  if (status.code() == ErrorCode::kCancelled) return end_cancelled();
  if (draft_.empty()) return request_.keeps(status) ? end(FinishReason::kLength) : end(std::move(status));
  // The pass with the draft failed. Retry with the sampled token only.
  draft_.clear();
  fed_.resize(1);
}

// --- compute thread: events, and the end

void Answer::emit_text(std::string_view text) {
  const std::string_view fresh = text.substr(now_.n_text);
  now_.n_text = text.size();
  if (fresh.empty()) return;
  emit({.kind = TurnEvent::Kind::kText, .text = std::string(fresh), .logprobs = logprobs_.take_certain(reply_)});
}

void Answer::emit(TurnEvent event) {
  if (request_.delivery == Delivery::kNone) return;
  now_.n_draws = sampler_.n_draws();
  now_.work.history_steps = sampler_.history().n_steps() - n_steps_before_;
  const bool more_text = event.kind == TurnEvent::Kind::kText && event.text.size() < now_.n_text;
  {
    const std::lock_guard lock(mutex_);
    queued_.push_back({std::move(event), now_});
  }
  more_text ? waker().wake_softly() : waker().ring();
}

void Answer::end(FinishReason reason) {
  out_.finish_reason = reason;
  reply_.finish(out_);
  emit_text(out_.text);
  end(Status());
}

void Answer::end_cancelled() {
  if (now_.n_sampled > 0) return end(FinishReason::kCancelled);
  end({ErrorCode::kCancelled, "cancelled before the first token of the answer"});
}

void Answer::end(Status status) noexcept {
  pending_prefill_.reset();
  (void)entry_.slice_to_at_most(now_.length);  // drop KV of drafts, or KV that search() found
  now_.n_draws = sampler_.n_draws();
  now_.work.history_steps = sampler_.history().n_steps() - n_steps_before_;
  status_ = std::move(status);
  stage_ = Stage::kOver;
}

void Answer::break_off() noexcept {
  broke_off_ = true;
  end(out_of_heap());
}

void Answer::take_time(double& sum_ms) {
  const int64_t now_ns = clock_.steady_ns();
  sum_ms += static_cast<double>(now_ns - mark_ns_) * 1e-6;
  mark_ns_ = now_ns;
}

// --- the owner's thread

bool Answer::withholds(bool first_despite_stop) const {
  if (request_.delivery != Delivery::kUntilStop || !request_.stop.stop_requested()) return false;
  return !first_despite_stop || taken_.n_sampled > 0;
}

std::optional<TurnEvent> Answer::take_event(bool first_despite_stop) {
  const std::lock_guard lock(mutex_);
  if (queued_.empty() || withholds(first_despite_stop)) return std::nullopt;
  taken_ = queued_.front().progress;
  TurnEvent event = std::move(queued_.front().event);
  queued_.pop_front();
  return event;
}

bool Answer::is_drained(bool first_despite_stop) {
  if (!is_over()) return false;  // checked first, because all events are queued once the answer is over
  const std::lock_guard lock(mutex_);
  return queued_.empty() || withholds(first_despite_stop);
}

Result<Generation> Answer::finish() {
  CHECK(is_over());
  const bool is_further = now_.n_sampled > taken_.n_sampled || now_.length > taken_.length || !status_.ok();
  if (is_further && withholds(false)) TRY(cut_back());
  TRY(std::exchange(status_, Status()));
  out_.n_text_taken = request_.delivery == Delivery::kUntilStop ? taken_.n_text : out_.text.size();
  out_.logprobs = logprobs_.take(out_.ids.size());
  return std::move(out_);
}

// Rolls the answer back to the last event that its owner took.
Status Answer::cut_back() {
  if (taken_.n_sampled == 0) return {ErrorCode::kCancelled, "cancelled before the first token of the answer"};
  status_ = Status();
  now_ = taken_;
  (void)entry_.slice_to_at_most(now_.length);  // may cut the prompt too: recurrent states resume only at checkpoints
  const TokenSpan ids = TokenSpan(sampled_).first(now_.n_sampled);
  ReplyText reply(tokenizer_, stops_, request_.shown_tokens);
  for (const TokenId id : ids) reply.push(id);
  out_.end_of_turn.reset();
  out_.finish_reason = FinishReason::kCancelled;
  reply.finish(out_);
  if (sampler_.reads_history()) {
    TokenHistory history = sampler_.take_history();
    history.truncate(n_before_answer_ + ids.size());
    sampler_.begin_answer(std::move(history));
  }
  if (request_.drafter != nullptr) request_.drafter->restore(n_drafter_, policy_before_, ids);
  return {};
}

}  // namespace ibid
