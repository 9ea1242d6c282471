#include "runtime/session/running_turn.h"

#include <algorithm>
#include <new>
#include <utility>

#include "runtime/answer/turn_sampler.h"
#include "runtime/out_of_heap.h"

namespace ibid {
namespace {

size_t pages_from(size_t first_position, size_t end_position) {
  return KvLayout::pages_for(end_position) - first_position / kPagePositions;
}

}  // namespace

ChatSession::State::RunningTurn::~RunningTurn() {
  if (answer_ == nullptr) return;
  if (!state_.engine->check_process().ok()) {
    (void)answer_.release();  // the callback forked: nobody ends it in the child
    return;
  }
  answer_->cancel();
  wait();
  state_.forget_indexes();
  take_entry_back();
  state_.take_back(before_);
}

void ChatSession::State::RunningTurn::wait() const {
  while (!answer_->is_over()) bell_->wait();
}

Status ChatSession::State::RunningTurn::begin(const TurnCallback& on_event, bool tells) {
  Status status;
  try {
    status = try_begin(on_event, tells);
    if (status.ok()) return status;
  } catch (const std::bad_alloc&) {
    state_.forget_indexes();  // whatever they were in the middle of
    status = out_of_heap();
  }
  answer_.reset();
  take_entry_back();
  state_.take_back(before_);
  return status;
}

Status ChatSession::State::RunningTurn::try_begin(const TurnCallback& on_event, bool tells) {
  State& s = state_;
  start_ns_ = s.engine->clock().steady_ns();
  TRY_ASSIGN(Sampler sampler, make_turn_sampler(options_, s.engine->tokenizer()));
  TRY_ASSIGN(StopDetector stops, StopDetector::create(options_.stop_strings));
  const size_t n_answer = options_.max_tokens == 0 ? SIZE_MAX : options_.max_tokens;
  TRY(s.wake_kv());
  TRY_ASSIGN(before_.delta, s.plan_within_context(n_answer, turn_, before_.full));
  const PromptDelta& delta = *before_.delta;
  if (on_event && turn_.left_out.any()) on_event({.kind = TurnEvent::Kind::kLeftOut, .turn = &turn_});
  if (!s.rewound && !before_.full && delta.n_keep < s.n_read) {
    turn_.lost_prefix = explain_lost_prefix(delta, s.transcript, s.messages, s.engine->tokenizer(), s.n_read);
  }
  before_.arranged = Arranged();
  Arranged& arranged = *before_.arranged;
  TRY(s.arrange_kv(delta, options_.priority, turn_, arranged));
  copied_before_ = s.kv.pages_copied();
  n_arranged_ = s.kv.length();
  turn_.usage.n_prompt = delta.n_prompt;
  turn_.seed = sampler.seed();
  if (options_.speculate) s.index_prompt(delta, turn_);
  const size_t n_steps_before = s.history.n_steps();
  counts_ = sampler.reads_history();
  if (counts_) s.count_prompt(delta, sampler);
  turn_.work.history_steps += sampler.history().n_steps() - (counts_ ? n_steps_before : 0);
  GenerateRequest request = request_answer(tells);
  entry_.emplace(std::exchange(s.kv, KvCacheEntry(s.engine->pool())));
  answer_ = std::make_unique<Answer>(s.engine->tokenizer(), s.engine->model(), s.engine->clock(), *entry_,
                                     std::move(request), std::move(sampler), std::move(stops), bell_);
  return s.engine->scheduler().submit(*answer_);
}

GenerateRequest ChatSession::State::RunningTurn::request_answer(bool tells) {
  State& s = state_;
  GenerateRequest request;
  request.shared = std::exchange(before_.arranged->shared, std::nullopt);
  request.prompt_begin = request.shared ? 0 : s.kv.length();
  request.prompt = s.prompt_ids(*before_.delta, request.prompt_begin);
  request.prompt_logits = before_.arranged->logits;
  request.max_tokens = options_.max_tokens == 0 ? SIZE_MAX : options_.max_tokens;
  request.stop_ids = s.engine->tokenizer().end_of_turn();
  request.min_tokens = options_.min_tokens;
  request.constraint = options_.constraint.get();
  request.stop_repetition = options_.stop_repetition;
  request.n_logprobs = options_.n_logprobs;
  request.priority = options_.priority;
  request.stop = options_.stop;
  request.drafter = options_.speculate ? &s.drafter : nullptr;
  request.start_ns = start_ns_;
  request.tells = tells;
  return request;
}

Answer::Listener ChatSession::State::RunningTurn::told_to(const TurnCallback& on_event) {
  return [this, &on_event](const AnswerEvent& event) {
    if (event.kind == AnswerEvent::Kind::kText) {
      on_event({.kind = TurnEvent::Kind::kText, .text = event.text});
    } else {
      on_event({.kind = TurnEvent::Kind::kPrefill, .n_done = event.n_done, .n_total = turn_.usage.n_prompt});
    }
  };
}

bool ChatSession::State::RunningTurn::hear(const TurnCallback& on_event, bool even_stopped) {
  return on_event ? answer_->hear(told_to(on_event), even_stopped) : answer_->is_over();
}

void ChatSession::State::RunningTurn::take_entry_back() noexcept {
  if (!entry_) return;
  state_.kv = *std::exchange(entry_, std::nullopt);
  if (answer_ == nullptr) return;
  std::optional<KvCacheEntry> replaced = answer_->take_replaced();
  if (!replaced) return;
  copied_before_ = 0;
  if (!before_.arranged->before) before_.arranged->before = std::move(replaced);
}

Result<Turn> ChatSession::State::RunningTurn::finish(const TurnCallback& on_event) {
  Status status;
  try {
    Result<Turn> turn = try_finish(on_event);
    if (turn.ok()) return turn;
    status = turn.status();
    if (answer_->broke_off()) state_.forget_indexes();
  } catch (const std::bad_alloc&) {
    state_.forget_indexes();
    status = out_of_heap();
  }
  take_entry_back();
  answer_.reset();
  state_.take_back(before_);
  if (status.code() == ErrorCode::kNonFinite) state_.forget_foreign_rows();
  return status;
}

Result<Turn> ChatSession::State::RunningTurn::try_finish(const TurnCallback& on_event) {
  State& s = state_;
  Result<Generation> generated = answer_->finish(on_event ? told_to(on_event) : Answer::Listener());
  if (counts_) s.history = answer_->take_history();
  TRY(generated.status());
  if (generated->finish_reason == FinishReason::kCancelled && options_.stop_mode == StopMode::kDiscard) {
    return {ErrorCode::kCancelled, "cancelled, and the turn was discarded"};
  }
  take_entry_back();
  const AnswerProgress& progress = answer_->progress();
  turn_.text = generated->text;
  turn_.finish_reason = generated->finish_reason;
  turn_.stop_string = generated->stop_string;
  turn_.logprobs = std::move(generated->logprobs);
  turn_.usage.n_cached = answer_->n_cached();
  turn_.usage.n_prefilled = turn_.usage.n_prompt - turn_.usage.n_cached;
  // What another session has read meanwhile was not read again here.
  turn_.usage.n_read_again -= std::min(turn_.usage.n_read_again, turn_.usage.n_cached - n_arranged_);
  turn_.usage.n_decoded = progress.n_sampled;
  turn_.usage.n_drafted = progress.n_drafted;
  turn_.usage.n_accepted = progress.n_accepted;
  turn_.timings += progress.timings;
  turn_.work += progress.work;
  turn_.work.kv_bytes_copied += (s.kv.pages_copied() - copied_before_) * s.kv.layout().page_bytes();
  turn_.work.pages_touched += pages_from(turn_.usage.n_cached, s.kv.length());
  s.commit(*before_.delta, *std::move(generated), options_.speculate, counts_, turn_);
  // Nothing below fails.
  answer_.reset();
  s.number_replies(before_.full ? before_.full->first_changed : s.messages.size());
  if (before_.arranged->searched && s.foreign == nullptr) s.tell_what_others_may_want();
  s.rest_kv();
  s.finish_timings(turn_, start_ns_);
  s.usage += turn_.usage;
  s.timings = turn_.timings;
  s.finish_turn(turn_, on_event);
  return std::move(turn_);
}

}  // namespace ibid
