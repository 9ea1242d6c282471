#include <algorithm>
#include <random>
#include <variant>
#include <vector>

#include "ibid/turn_stream.h"
#include "runtime/generate/generate.h"
#include "runtime/prompt/plain_prompt.h"
#include "runtime/prompt/turn_meter.h"
#include "runtime/scoring/score_pass.h"
#include "runtime/session/dialogue.h"
#include "runtime/session/prefill_stream.h"
#include "runtime/session/session_state.h"
#include "runtime/session/turn_reply.h"
#include "server/service/conversations.h"
#include "server/service/jobs.h"
#include "server/service/request_prompt.h"
#include "server/service/response_format.h"
#include "server/service/system_messages.h"
#include "server/store/cache_namespace.h"
#include "templates/message.h"

namespace ibid::serve {
namespace {

// Returns a seed below 2^52. Answer i of a request gets this seed plus i, and clients whose numbers are doubles must be
// able to send any of these seeds back exactly.
uint64_t random_seed() {
  std::random_device random;
  return (static_cast<uint64_t>(random()) << 32 | random()) >> 12;
}

// Returns the client's last message with the answer that continues it appended.
Json joined_message(Json sent, const Json& added) {
  for (const char* field : {"content", "reasoning_content"}) {
    const std::string* more = text_member(added, field);
    if (more == nullptr) continue;
    const std::string* before = text_member(sent, field);
    sent[field] = (before == nullptr ? std::string() : *before) + *more;
  }
  if (const auto calls = added.find("tool_calls"); calls != added.end()) sent["tool_calls"] = *calls;
  return sent;
}

void emit_event(const TurnEvent& event, size_t i, AnswerListener& listener) {
  switch (event.kind) {
    case TurnEvent::Kind::kLogprobs: return listener.logprobs(i, event.logprobs);
    case TurnEvent::Kind::kText:
    case TurnEvent::Kind::kContent: return listener.content(i, event.text);
    case TurnEvent::Kind::kReasoning: return listener.reasoning(i, event.text);
    case TurnEvent::Kind::kCallBegin: return listener.tool_call(i, event.call, event.id, event.name);
    case TurnEvent::Kind::kArguments: return listener.tool_arguments(i, event.call, event.text);
    case TurnEvent::Kind::kCallBroken:  // the answer was cut off inside this call
    case TurnEvent::Kind::kCallEnd:
    case TurnEvent::Kind::kLeftOut:
    case TurnEvent::Kind::kPrefill:
    case TurnEvent::Kind::kFinish: return;
  }
}

// A request for answers: its conversation, the turns that answer it, and the events for its listener.
//
// If a turn runs out of memory, it is repeated when there is more. Its prompt, options and seed are the same, so its
// events are the same too, and events that the listener has already received are skipped.
class AnswerJob final : public Job {
 public:
  AnswerJob(AnswerRequest request, std::shared_ptr<AnswerListener> listener, std::stop_token gone,
            std::shared_ptr<Waker> waker)
      : Job({request.model, std::string(owner_of_namespace(request.cache_namespace)), request.deadline,
             bytes_of_prompt(request), request.keep_alive},
            std::move(waker)),
        request_(std::move(request)),
        listener_(std::move(listener)),
        variables_(variables_for(request_)) {
    watch(std::move(gone));
  }
  ~AnswerJob() override { end_watch(); }

  // Prepares the request, finds the conversation that it continues, and plans its prompt.
  Status prepare(const Place& place) override;
  KvRoom room(const Engine& engine, size_t expected_answer) const override;
  // Starts the turn, or, for several answers, the prefill of the prompt and then their turns. Emits begin().
  Status plan(const Place& place) override;
  Next advance(Conversations& conversations) override;
  void leave_queue(std::chrono::nanoseconds waited) override;
  void refuse(const Status& busy, std::chrono::seconds retry_after) override;
  void end(const Status& status) override;
  bool is_cut_short() const override { return is_cut_short_; }

 private:
  struct Part {
    explicit Part(Conversation c) : conversation(std::move(c)) {}
    Conversation conversation;
    std::optional<TurnStream> stream;  // null after the turn has ended
    bool is_over = false;              // the turn has finished, and its conversation was put back
    // n_events: events of the current stream so far. n_emitted: events that the listener has received.
    size_t n_events = 0, n_emitted = 0;
  };
  Result<Conversation> find_conversation(const std::shared_ptr<Engine>& engine, Conversations& conversations) const;
  // Reports the keywords of the response format's schema that do not constrain the answer.
  void note_ignored_keywords();
  void guard(size_t max_seq_len);
  TurnStart start() const { return request_.continues ? TurnStart::continuing() : TurnStart::answer(); }
  Status find_prompt(const Place& place);
  Status begin(const Place& place);
  Status begin_scoring(const Place& place);
  Status begin_prefill(const Place& place);
  void end_without_answer(Conversations& conversations);
  Status begin_turns(const Place& place);
  Status begin_turn(size_t i);
  void emit_begin(const Place& place, size_t n_prompt);
  bool prefill_has_ended() const;  // true if the prefill or scoring of the prompt has ended; REQUIRES: it was started
  Result<Usage> finish_prefill();
  Next after_prefill(Conversations& conversations);
  void emit_events(size_t i);
  void emit_prefill(size_t n_done);
  void finish(size_t i, Conversations& conversations);
  void add_prefill_usage(Turn& turn) const;
  void put_back(Conversation conversation, Conversations& conversations) const;
  void fail(Status status);

  AnswerRequest request_;
  std::shared_ptr<AnswerListener> listener_;  // null after end()
  Json variables_;

  std::optional<Conversation> conversation_;  // conversation of the request until the turns begin
  // reading_: the computation for the prompt before its answers, if any: the scores of its tokens, or a prefill.
  struct Scoring {
    Tokens ids;
    std::unique_ptr<ScorePass> pass;
  };
  std::variant<std::monostate, Scoring, PrefillStream> prefill_;
  int64_t prefill_begin_ns_ = 0;  // time (engine's clock) at which planning of reading_ began
  // Cost of reading_ (the prefill or scoring of the prompt), planning included; set when reading_ has ended.
  struct PrefillCost {
    double ms = 0;
    Usage usage = {};
  };
  std::optional<PrefillCost> prefill_cost_;
  std::vector<std::unique_ptr<Part>> parts_;
  size_t n_started_together_ = 0;  // number of turns that were started together
  PromptSize prompt_size_;
  Tokens prompt_ids_;          // tokens of the prompt; set if an answer is continued, or if the request wants them
  bool has_sent_ids_ = false;  // the listener received prompt_ids_
  std::optional<size_t> n_prefill_emitted_;  // number of positions in the last progress report
  bool is_guarded_ = false;                  // the maximum length was set by the guard
  bool has_left_queue_ = false;
  bool has_begun_ = false;
  bool is_cut_short_ = false;
};

KvRoom AnswerJob::room(const Engine& engine, size_t expected_answer) const {
  KvNeed need{.n_prompt = prompt_size_.n_prompt,
              .n_dropped = prompt_size_.n_dropped,
              .n_answer = request_.options.max_tokens,
              .n_answers = request_.n};
  if (need.n_answer == 0 || is_guarded_) {
    // An answer may already be longer than expected: reserve one page more than its number of events, each of which has
    // one token or more.
    const size_t most = is_guarded_ ? need.n_answer : SIZE_MAX;
    need.n_answer = expected_answer;
    for (const auto& part : parts_) need.n_answer = std::max(need.n_answer, part->n_events + kPagePositions);
    need.n_answer = std::min(need.n_answer, most);
  }
  return {.engine = &engine,
          .n_bytes = kv_bytes_for(engine.state().pool().layout(), engine.max_seq_len(), need),
          .budget_bytes = engine.state().pool().budget_bytes()};
}

Result<Conversation> AnswerJob::find_conversation(const std::shared_ptr<Engine>& engine,
                                                  Conversations& conversations) const {
  if (!request_.prompt) {
    return conversations.take(engine, request_.cache_namespace, request_.messages, variables_, request_.when_full);
  }
  const auto* text = std::get_if<std::string>(&*request_.prompt);
  return conversations.take_plain(
      engine, request_.cache_namespace,
      text != nullptr ? plain_message(*text) : plain_message(std::get<Tokens>(*request_.prompt)));
}

void AnswerJob::guard(size_t max_seq_len) {
  using Kind = ResponseFormat::Kind;
  TurnOptions guarded;
  guard_answer(guarded, max_seq_len);
  const bool chooses_length = request_.chooses_length || request_.options.max_tokens > 0;
  is_guarded_ = !chooses_length && request_.guard.value_or(true) && request_.n > 0;
  if (is_guarded_) request_.options.max_tokens = guarded.max_tokens;
  const bool is_json = request_.form.kind == Kind::kJsonObject || request_.form.kind == Kind::kJsonSchema;
  if (!request_.chooses_repetition && request_.guard.value_or(is_guarded_ || is_json)) {
    request_.options.stop_repetition = guarded.stop_repetition;
  }
}

void AnswerJob::note_ignored_keywords() {
  const bool has_schema = request_.form.kind == ResponseFormat::Kind::kJsonSchema;
  if (!has_schema || request_.options.constraint == nullptr) return;
  for (const std::string& place : ignored_of(*request_.options.constraint)) {
    ignore(request_.ignored, {.field = request_.form.field + place,
                              .reason = "the keyword or format does not constrain the answer",
                              .is_clients_own = true});
  }
}

Status AnswerJob::prepare(const Place& place) {
  if (request_.n > ChatSession::kMaxAnswers) {
    return {ErrorCode::kInvalidArgument,
            "n: " + std::to_string(request_.n) + ", allowed: 1 to " + std::to_string(ChatSession::kMaxAnswers)};
  }
  request_.options.stop = stop_token();
  request_.options.parse_reply = !request_.prompt;
  request_.options.parse_calls = request_.tool_choice.kind != ToolChoice::Kind::kNone;
  request_.options.demands_call = request_.tool_choice.demands_call();
  guard(place.engine()->max_seq_len());
  if (!request_.options.sampler.seed) request_.options.sampler.seed = random_seed();
  TRY(tokenize_prompt(*place.engine(), request_.prompt));
  set_text_biases(place.engine()->state().tokenizer(), request_);
  TRY(prepare_messages(*place.engine(), request_));
  TRY_ASSIGN(request_.options.constraint, constraint_for(place.engine(), request_));
  note_ignored_keywords();
  const Status status = find_prompt(place);
  return is_refusal(status.code()) && join_system_to_user(request_) ? find_prompt(place) : status;
}

Status AnswerJob::find_prompt(const Place& place) {
  TRY_ASSIGN(conversation_, find_conversation(place.engine(), place.conversations));
  SessionState& session = conversation_->session().state();
  if (request_.continues || request_.returns_prompt_ids) {
    TRY_ASSIGN(prompt_ids_, session.prompt_ids(start()));
  }
  if (request_.continues) {
    prompt_size_ = {.n_prompt = prompt_ids_.size()};
  } else {
    TRY_ASSIGN(prompt_size_, session.prompt_size(request_.options.max_tokens));
  }
  return {};
}

Status AnswerJob::plan(const Place& place) {
  Conversations& conversations = place.conversations;
  Status status = guarded([&] { return begin(place); });
  if (status.ok()) return status;
  prefill_.emplace<std::monostate>();
  if (conversation_) put_back(*std::exchange(conversation_, std::nullopt), conversations);
  for (std::unique_ptr<Part>& part : parts_) {
    part->stream.reset();
    if (!part->is_over) put_back(std::move(part->conversation), conversations);
  }
  parts_.clear();
  return status;
}

// Starts with the prompt if it is scored, if several answers share it, or if no answer is requested; else with the
// turns.
Status AnswerJob::begin(const Place& place) {
  status_ = {};
  if (!prefill_cost_ && request_.n_prompt_logprobs) return begin_scoring(place);
  const bool prefills_first = request_.n == 0 || (request_.n > 1 && !request_.continues);
  if (!prefill_cost_ && prefills_first && parts_.empty()) return begin_prefill(place);
  return begin_turns(place);
}

// The keys and values of the scored prompt stay in the store, where the turns find them.
Status AnswerJob::begin_scoring(const Place& place) {
  EngineState& engine = place.engine()->state();
  prefill_begin_ns_ = engine.clock().steady_ns();
  TRY_ASSIGN(Tokens ids, conversation_->session().state().prompt_ids(start()));
  const ScoreOptions options{.n_top = *request_.n_prompt_logprobs,
                             .cache_namespace = request_.cache_namespace,
                             .priority = request_.options.priority,
                             .stop = stop_token()};
  TRY_ASSIGN(std::unique_ptr<ScorePass> pass, ScorePass::begin(engine, ids, options, waker()));
  emit_begin(place, ids.size());
  prefill_.emplace<Scoring>(Scoring{std::move(ids), std::move(pass)});
  return {};
}

Status AnswerJob::begin_prefill(const Place& place) {
  Clock& clock = place.engine()->state().clock();
  prefill_begin_ns_ = clock.steady_ns();
  PrefillStream& prefill =
      prefill_.emplace<PrefillStream>(conversation_->session(), request_.options.priority, stop_token(), waker());
  if (const Usage* read = prefill.begun()) {
    emit_begin(place, read->n_prompt);
    return {};
  }
  const Status status = prefill.finish().status();
  prefill_.emplace<std::monostate>();
  // If the context is full, continue without a prefill, because every turn drops messages by itself.
  const bool makes_room = status.code() == ErrorCode::kContextFull && request_.when_full != WhenFull::kError;
  if (!status.ok() && !makes_room) return status;
  if (request_.n > 0) return begin_turns(place);
  TRY(status);
  TRY_ASSIGN(const Tokens prompt, encode_prompt_ids(*place.engine(), request_));
  const size_t n_prompt = prompt.size();
  prefill_cost_ = {.ms = static_cast<double>(clock.steady_ns() - prefill_begin_ns_) * 1e-6,
                   .usage = {.n_prompt = n_prompt, .n_cached = n_prompt}};
  emit_begin(place, n_prompt);
  return {};
}

// Starts all turns. A repeated attempt starts the turns that ran out of memory, one at a time.
Status AnswerJob::begin_turns(const Place& place) {
  const bool is_first = parts_.empty();
  if (is_first) {
    for (size_t i = 1; i < request_.n; ++i) {
      TRY_ASSIGN(Conversation other, conversation_->fork(conversation_->size()));
      parts_.push_back(std::make_unique<Part>(std::move(other)));
    }
    parts_.insert(parts_.begin(), std::make_unique<Part>(*std::exchange(conversation_, std::nullopt)));
  }
  n_started_together_ = 0;
  for (size_t i = 0; i < parts_.size() && (is_first || n_started_together_ == 0); ++i) {
    if (parts_[i]->is_over) continue;
    TRY(begin_turn(i));
    ++n_started_together_;
  }
  const auto begun = std::ranges::find_if(parts_, [](const auto& part) { return part->stream.has_value(); });
  emit_begin(place, (*begun)->stream->begun()->usage.n_prompt);
  return {};
}

Status AnswerJob::begin_turn(size_t i) {
  Part& part = *parts_[i];
  part.n_events = 0;
  TurnOptions options = request_.options;
  *options.sampler.seed += i;
  part.stream.emplace(TurnStream(part.conversation.session(), start(), std::move(options), waker()));
  if (part.stream->begun() != nullptr) return {};
  const Status status = part.stream->finish().status();
  part.stream.reset();
  return status;
}

void AnswerJob::emit_begin(const Place& place, size_t n_prompt) {
  if (std::exchange(has_begun_, true)) return;
  if (!request_.ignored.empty()) listener_->ignored(request_.ignored);
  // If messages were dropped from the prompt, prompt_ids_ are not its tokens.
  has_sent_ids_ = request_.returns_prompt_ids && prompt_ids_.size() == n_prompt;
  for (size_t i = 0; has_sent_ids_ && i < request_.n_answers(); ++i) listener_->prompt_tokens(i, prompt_ids_);
  listener_->begin(place.model, n_prompt, tokenizer_of_lease(place.lease));
}

AnswerJob::Next AnswerJob::advance(Conversations& conversations) {
  if (prefill_.index() != 0) return prefill_has_ended() ? after_prefill(conversations) : Next::kWait;
  if (request_.n == 0) {  // no answer was requested, so the job ends after the prefill
    end_without_answer(conversations);
    return Next::kOver;
  }
  size_t n_running = 0, n_left = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i]->stream) emit_events(i);
    if (parts_[i]->stream && parts_[i]->stream->is_over()) finish(i, conversations);
    n_running += parts_[i]->stream ? 1 : 0;
    n_left += parts_[i]->is_over ? 0 : 1;
  }
  if (n_running > 0) return Next::kWait;
  // If several answers ran at once and ran out of memory, run them one at a time, which needs less memory.
  if (status_.code() == ErrorCode::kOutOfMemory) return n_started_together_ > 1 ? Next::kPlan : Next::kRetry;
  return status_.ok() && n_left > 0 ? Next::kPlan : Next::kOver;
}

bool AnswerJob::prefill_has_ended() const {
  if (const Scoring* scoring = std::get_if<Scoring>(&prefill_)) return scoring->pass->is_over();
  return std::get<PrefillStream>(prefill_).is_over();
}

// Ends the prefill or the scoring of the prompt, and returns its usage.
Result<Usage> AnswerJob::finish_prefill() {
  if (PrefillStream* prefill = std::get_if<PrefillStream>(&prefill_)) return prefill->finish();
  Scoring& scoring = std::get<Scoring>(prefill_);
  TRY_ASSIGN(Scored scored, scoring.pass->finish());
  const Usage usage = scored.usage;
  listener_->prompt_scores(0, std::make_shared<PromptScores>(PromptScores{std::move(scoring.ids), std::move(scored)}));
  return usage;
}

AnswerJob::Next AnswerJob::after_prefill(Conversations& conversations) {
  const Result<Usage> usage = finish_prefill();
  prefill_.emplace<std::monostate>();
  status_ = usage.status();
  if (status_.code() == ErrorCode::kOutOfMemory) return Next::kRetry;
  if (!usage.ok()) {
    put_back(*std::exchange(conversation_, std::nullopt), conversations);
    return Next::kOver;
  }
  const int64_t now_ns = conversation_->session().engine()->state().clock().steady_ns();
  prefill_cost_ = {.ms = static_cast<double>(now_ns - prefill_begin_ns_) * 1e-6, .usage = *usage};
  if (request_.n > 0) return Next::kPlan;
  end_without_answer(conversations);
  return Next::kOver;
}

// Ends a request for 0 answers with an empty answer that reports the usage.
void AnswerJob::end_without_answer(Conversations& conversations) {
  put_back(*std::exchange(conversation_, std::nullopt), conversations);
  Answer turn;
  turn.finish_reason = FinishReason::kLength;
  turn.usage = usage_ = prefill_cost_->usage;
  turn.timings.prefill_ms = turn.timings.total_ms = prefill_cost_->ms;
  listener_->answer(0, turn);
}

void AnswerJob::emit_events(size_t i) {
  Part& part = *parts_[i];
  while (std::optional<TurnEvent> event = part.stream->poll_event()) {
    if (event->kind == TurnEvent::Kind::kPrefill) {
      if (parts_.size() > 1) continue;
      if (!n_prefill_emitted_) emit_prefill(event->n_cached);
      emit_prefill(event->n_done);
      continue;
    }
    if (parts_.size() == 1 && !n_prefill_emitted_) emit_prefill(prompt_size_.n_prompt);  // all of it was cached
    if (++part.n_events <= part.n_emitted) continue;
    part.n_emitted = part.n_events;
    emit_event(*event, i, *listener_);
  }
}

// A repeated turn reports only the positions that follow those of the last report.
void AnswerJob::emit_prefill(size_t n_done) {
  if (n_prefill_emitted_ && n_done <= *n_prefill_emitted_) return;
  n_prefill_emitted_ = n_done;
  listener_->prefill(n_done, prompt_size_.n_prompt);
}

void AnswerJob::finish(size_t i, Conversations& conversations) {
  Part& part = *parts_[i];
  Result<Turn> turn = part.stream->finish();
  part.stream.reset();
  if (turn.status().code() == ErrorCode::kOutOfMemory) return fail(turn.status());  // the turn may be repeated
  part.is_over = true;
  if (!turn.ok()) {
    put_back(std::move(part.conversation), conversations);
    return fail(turn.status());
  }
  if (i == 0 && prefill_cost_) add_prefill_usage(*turn);
  usage_ += turn->usage;
  is_cut_short_ |= turn->finish_reason == FinishReason::kCancelled;
  const bool was_cut = turn->left_out.any();
  if (request_.prompt) turn->content = turn->text;
  if (request_.returns_prompt_ids && !has_sent_ids_) {
    const Tokens& all = part.conversation.session().ids();
    listener_->prompt_tokens(i, TokenSpan(all).first(std::min(all.size(), turn->usage.n_prompt)));
  }
  if (request_.continues) {
    part.conversation.continued(joined_message(request_.messages.back(), message_of_answer(*turn)));
  } else {
    part.conversation.answered(message_of_answer(*turn), was_cut ? &request_.messages : nullptr);
  }
  // Put the conversation back before the client receives the answer, because the client may continue it at once.
  put_back(std::move(part.conversation), conversations);
  listener_->answer(i, {*std::move(turn), request_.options.max_tokens, is_guarded_});
}

// Adds the prefill or scoring of the prompt, done once for all answers, to the usage of the first answer. If KV of the
// prompt was evicted before the answer began, the answer has prefilled it again, and already counts it.
void AnswerJob::add_prefill_usage(Turn& turn) const {
  ibid::add_prefill_usage(turn.usage, prefill_cost_->usage);
  turn.timings.prefill_ms += prefill_cost_->ms;
  turn.timings.ttft_ms += prefill_cost_->ms;
  turn.timings.total_ms += prefill_cost_->ms;
  const double prefill_ms = turn.timings.prefill_ms;
  turn.timings.prefill_tps = prefill_ms > 0 ? static_cast<double>(turn.usage.n_prefilled) * 1000 / prefill_ms : 0;
}

// Stores the error of a turn. If the job cannot be retried after it, also stops the other turns.
void AnswerJob::fail(Status status) {
  const bool is_final = status.code() != ErrorCode::kOutOfMemory;
  if (status_.ok() || (is_final && status_.code() == ErrorCode::kOutOfMemory)) status_ = std::move(status);
  if (is_final && parts_.size() > 1) stop(ErrorCode::kCancelled);
}

// Puts the conversation back, so that it replaces the known one that it continued. Does nothing if the request forbids
// storing or has a prompt without a template; then the known conversation stays.
void AnswerJob::put_back(Conversation conversation, Conversations& conversations) const {
  if (request_.store && !request_.prompt) conversations.put(std::move(conversation));
}

void AnswerJob::leave_queue(std::chrono::nanoseconds waited) {
  if (!std::exchange(has_left_queue_, true)) listener_->queued(waited);
}

void AnswerJob::refuse(const Status& busy, std::chrono::seconds retry_after) {
  listener_->come_again(retry_after);
  end(busy);
}

void AnswerJob::end(const Status& status) {
  const auto listener = std::exchange(listener_, nullptr);
  if (listener == nullptr) return;
  const bool was_stopped = status.ok() ? is_cut_short_ : status.code() == ErrorCode::kCancelled;
  listener->end(was_stopped ? why_stopped() : status);
}

}  // namespace

std::unique_ptr<Job> make_answer_job(AnswerRequest request, std::shared_ptr<AnswerListener> listener,
                                     std::stop_token gone, std::shared_ptr<Waker> waker) {
  return std::make_unique<AnswerJob>(std::move(request), std::move(listener), std::move(gone), std::move(waker));
}

}  // namespace ibid::serve
