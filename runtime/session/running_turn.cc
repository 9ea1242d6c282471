#include "runtime/session/running_turn.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/checked.h"
#include "base/result.h"
#include "runtime/prompt/lost_prefix.h"
#include "templates/message.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_parser.h"

namespace ibid {
namespace {

size_t pages_from(size_t first_position, size_t end_position) {
  return saturating_sub(KvLayout::pages_for(end_position), first_position / kPagePositions);
}

SampledReply reply_of(Generation& generation, const Tokenizer& tokenizer) {
  SampledReply reply;
  const size_t n_bytes = generation.text_ends.empty() ? 0 : generation.text_ends.back();
  reply.text = generation.text.substr(0, n_bytes);
  reply.ids = std::move(generation.ids);
  reply.text_ends = std::move(generation.text_ends);
  if (generation.end_of_turn) {
    reply.end_of_turn = generation.end_of_turn;
    reply.end_of_turn_text = tokenizer.token_bytes(*generation.end_of_turn);
  }
  return reply;
}

// The last n bytes of the prompt.
std::string end_of_prompt(const PromptDelta& delta, const Transcript& transcript, size_t n) {
  const TranscriptPatch& patch = delta.patch;
  std::string_view kept = transcript.bytes().substr(0, patch.keep_bytes);
  kept.remove_prefix(saturating_sub(kept.size(), saturating_sub(n, patch.bytes.size())));
  return std::string(kept) + patch.bytes.substr(saturating_sub(patch.bytes.size(), n));
}

// True if the id of a call comes after its arguments.
bool has_late_ids(const ReplyFormat& format) {
  if (!format.calls) return false;
  if (format.calls->envelope) return !format.calls->envelope->id_key.empty();
  bool has_arguments = false;
  for (const CallPart& part : format.calls->parts) {
    has_arguments |= part.kind == CallPart::Kind::kArguments;
    if (has_arguments && (part.kind == CallPart::Kind::kId || part.kind == CallPart::Kind::kIndex)) return true;
  }
  return false;
}

Status check_logprobs(const TurnOptions& options, size_t vocab_size) {
  if (options.n_logprobs && *options.n_logprobs > kMaxTopLogprobs) {
    return {ErrorCode::kInvalidArgument, "n_logprobs: " + std::to_string(*options.n_logprobs) + ", allowed: 0 to " +
                                             std::to_string(kMaxTopLogprobs)};
  }
  const std::vector<TokenId>& ids = options.logprob_token_ids;
  if (ids.size() > kMaxLogprobIds) {
    return {ErrorCode::kInvalidArgument,
            "logprob_token_ids: " + std::to_string(ids.size()) + " tokens, allowed: " + std::to_string(kMaxLogprobIds)};
  }
  if (!ids.empty() && !options.n_logprobs) {
    return {ErrorCode::kInvalidArgument, "logprob_token_ids: needs log-probabilities of the answer"};
  }
  for (const TokenId id : ids) {
    if (id >= 0 && static_cast<size_t>(id) < vocab_size) continue;
    return {ErrorCode::kInvalidArgument, "logprob_token_ids: token id " + std::to_string(id) +
                                             " is out of vocabulary: the model has " + std::to_string(vocab_size) +
                                             " tokens"};
  }
  return {};
}

}  // namespace

Result<Sampler> make_turn_sampler(const TurnOptions& options, const Tokenizer& tokenizer) {
  TRY(check_logprobs(options, tokenizer.vocab_size()));
  if (options.priority < Priority::kHigh || options.priority > Priority::kLow) {
    return {ErrorCode::kInvalidArgument, "priority: " + std::to_string(static_cast<int>(options.priority)) +
                                             ", allowed: one of the values of Priority"};
  }
  if (options.stop_mode != StopMode::kKeepPartial && options.stop_mode != StopMode::kDiscard) {
    return {ErrorCode::kInvalidArgument, "stop_mode: " + std::to_string(static_cast<int>(options.stop_mode)) +
                                             ", allowed: one of the values of StopMode"};
  }
  const std::vector<std::string>& breakers = options.dry_sequence_breakers;
  if (std::find(breakers.begin(), breakers.end(), "") != breakers.end()) {
    return {ErrorCode::kInvalidArgument, "dry_sequence_breakers: a string is empty, allowed are non-empty strings"};
  }
  SamplerOptions sampler = options.sampler;
  const size_t vocab_size = tokenizer.vocab_size();
  for (size_t i = 0; i < vocab_size && sampler.dry_multiplier != 0; ++i) {
    const std::string_view bytes = tokenizer.token_bytes(static_cast<TokenId>(i));
    const auto holds = [&](const std::string& text) { return bytes.find(text) != bytes.npos; };
    if (std::any_of(breakers.begin(), breakers.end(), holds)) {
      sampler.dry_breakers.push_back(static_cast<TokenId>(i));
    }
  }
  return Sampler::create(std::move(sampler), vocab_size);
}

RunningTurn::RunningTurn(SessionBranch& branch, Setting setting, const TurnOptions& options,
                         std::shared_ptr<Waker> waker)
    : branch_(branch),
      engine_(setting.engine),
      setting_(setting),
      options_(options),
      waker_(std::move(waker)),
      meter_(engine_.clock()) {}

RunningTurn::~RunningTurn() {
  if (answer_ == nullptr) return;
  if (!engine_.check_process().ok()) {
    (void)answer_.release();  // a callback called fork(): no thread ends the answer in the child
    return;
  }
  answer_->cancel();
  wait();
  branch_.history_indexes.forget();
  drop();
}

void RunningTurn::wait() const {
  while (!answer_->is_over()) waker_->wait();
}

void RunningTurn::drop() noexcept {
  answer_.reset();
  lease_.reset();
  plan_.reset();
  edit_.reset();
}

// --- begin

// Calls `body`. If memory runs out, returns kOutOfMemory and drops the indexes of past tokens, because they may be
// half-changed.
template <typename Body>
auto RunningTurn::guarded_indexes(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    branch_.history_indexes.forget();
    return out_of_heap();
  }
}

Status RunningTurn::begin(PendingEdit edit, Delivery delivery) {
  Status status = guarded_indexes([&] { return try_begin(std::move(edit), delivery); });
  if (!status.ok()) drop();
  return status;
}

Status RunningTurn::try_begin(PendingEdit edit, Delivery delivery) {
  Dialogue& dialogue = branch_.dialogue;
  TRY_ASSIGN(Sampler sampler, make_turn_sampler(options_, engine_.tokenizer()));
  TRY_ASSIGN(StopDetector stops, StopDetector::create(options_.stop_strings));
  const size_t n_answer = options_.max_tokens == 0 ? SIZE_MAX : options_.max_tokens;
  continued_ = std::exchange(edit.continued, std::nullopt);
  edit_.emplace(dialogue.apply(std::move(edit)));
  TRY_ASSIGN(TurnPlan planned, plan({engine_.max_seq_len(), n_answer}));
  plan_.emplace(std::move(planned));
  const PromptDelta& delta = plan_->delta;
  meter_.add(delta.cost);
  turn_.left_out = plan_->left_out;
  const size_t n_read = branch_.cache.n_computed_before();
  if (!dialogue.goes_back() && !plan_->fitted && delta.n_keep < n_read) {
    turn_.lost_prefix =
        explain_lost_prefix(delta, dialogue.transcript(), dialogue.messages().json(), engine_.tokenizer(), n_read);
  }
  const PromptIds prompt(delta, dialogue.transcript());
  {
    const Stopwatch watch = meter_.time(&Timings::match_ms);
    TRY_ASSIGN(lease_, branch_.cache.checkout(prompt, options_.priority, options_.stop));
    meter_.work() += lease_->work();
    if (options_.speculate) meter_.work().tokens_indexed += branch_.history_indexes.index(prompt);
  }
  turn_.usage.n_prompt = prompt.size();
  turn_.usage.n_from_disk = lease_->n_from_disk();
  turn_.usage.n_reprefilled = lease_->n_reprefilled();
  if (lease_->missing() && !turn_.lost_prefix) {
    turn_.lost_prefix = explain_missing_rows(*lease_->missing(), lease_->n_reprefilled(), lease_->n_found(),
                                             dialogue.transcript(), dialogue.messages().json());
  }
  turn_.seed = sampler.seed();
  if (options_.parse_reply) begin_reply(delta);
  TRY(begin_constraint(delta));
  counts_ = sampler.reads_history();
  if (counts_) meter_.work().history_steps += branch_.history_indexes.checkout(prompt, sampler);
  auto answer =
      std::make_unique<Answer>(Answer::Setting{engine_.tokenizer(), engine_.model(), engine_.clock()}, lease_->entry(),
                               request_answer(prompt, delivery), std::move(sampler), std::move(stops), waker_);
  answer_ = std::move(answer);
  return engine_.scheduler().submit(*answer_);
}

Result<TurnPlan> RunningTurn::plan(const ContextLimits& limits) {
  Dialogue& dialogue = branch_.dialogue;
  return continued_ ? dialogue.plan_continuing(*continued_, limits) : dialogue.plan_within(limits, setting_.when_full);
}

GenerateRequest RunningTurn::request_answer(const PromptIds& prompt, Delivery delivery) {
  GenerateRequest request;
  request.shared = lease_->take_shared();
  request.prompt_begin = request.shared ? 0 : lease_->entry().length();
  request.prompt = prompt.from(request.prompt_begin);
  if (engine_.state_share().spacing > 0) {
    const BranchPoints branch_points = branch_.dialogue.branch_points(plan_->delta, request.prompt_begin);
    request.checkpoints =
        CheckpointPositions(request.prompt_begin, prompt.size(), branch_points, engine_.state_share());
  }
  request.prompt_logits = lease_->logits();
  request.max_tokens = options_.max_tokens == 0 ? SIZE_MAX : options_.max_tokens;
  request.stop_ids = engine_.tokenizer().end_of_turn();
  // A special token gives no text in which a stop string could be found, so the token itself must end the turn.
  for (const std::string& text : options_.stop_strings) {
    const std::optional<TokenId> id = engine_.tokenizer().find_token(text);
    if (id && engine_.tokenizer().is_special(*id)) request.stop_ids.push_back(*id);
  }
  request.min_tokens = options_.min_tokens;
  request.constraint = constraint_.get();
  request.stop_repetition = options_.stop_repetition;
  request.keep_when_out_of_memory = options_.keep_when_out_of_memory;
  request.continues = plan_->delta.n_continued.value_or(0) > 0;
  request.shown_tokens = shown_;
  request.n_logprobs = options_.n_logprobs;
  request.logprob_token_ids = options_.logprob_token_ids;
  request.logprobs_after_sampling = options_.logprobs_after_sampling;
  request.priority = options_.priority;
  request.stop = options_.stop;
  request.expected = branch_.history_indexes.take_expected();
  request.drafter = options_.speculate ? &branch_.history_indexes.drafter() : nullptr;
  request.start_ns = meter_.start_ns();
  request.delivery = delivery;
  return request;
}

// --- events

std::optional<TurnEvent> RunningTurn::take_event(bool first_despite_stop) {
  while (ready_.empty()) {
    std::optional<TurnEvent> event = answer_->take_event(first_despite_stop);
    if (!event) {
      if (generated_ || !answer_->is_drained(first_despite_stop)) return std::nullopt;
      end_answer();
      continue;
    }
    if (!splits_ || event->kind != TurnEvent::Kind::kText) return event;
    if (!event->logprobs.empty()) {
      ready_.push_back({.kind = TurnEvent::Kind::kLogprobs, .logprobs = std::exchange(event->logprobs, {})});
    }
    if (reply_) {
      reply_->feed(event->text, [this](const TurnEvent& part) { ready_.push_back(part); });
    } else {
      ready_.push_back(*std::move(event));
    }
  }
  TurnEvent event = std::move(ready_.front());
  ready_.pop_front();
  return event;
}

bool RunningTurn::is_over(bool first_despite_stop) {
  if (!generated_ && ready_.empty() && answer_->is_drained(first_despite_stop)) end_answer();
  return generated_.has_value() && ready_.empty();
}

void RunningTurn::end_answer() noexcept {
  generated_ = guarded_indexes([&] { return try_end_answer(); });
}

Result<Generation> RunningTurn::try_end_answer() {
  Result<Generation> generated = answer_->finish();
  if (counts_) branch_.history_indexes.take_back(answer_->take_history());
  // Keep the sampled tokens as drafts, because a retry with the same seed samples the same tokens.
  if (generated.status().code() == ErrorCode::kOutOfMemory) branch_.history_indexes.expect(answer_->take_sampled());
  TRY(generated.status());
  note(*generated);
  return generated;
}

// --- finish

Result<Turn> RunningTurn::finish() {
  wait();
  if (!generated_) end_answer();
  Status status = generated_->status();
  if (status.ok()) status = guarded_indexes([&] { return try_commit(); });
  if (status.ok()) return std::move(turn_);
  if (answer_->broke_off()) branch_.history_indexes.forget();
  drop();
  if (status.code() == ErrorCode::kNonFinite) branch_.cache.drop_imported_kv();
  return status;
}

Status RunningTurn::try_commit() {
  if ((*generated_)->finish_reason == FinishReason::kCancelled && options_.stop_mode == StopMode::kDiscard) {
    return {ErrorCode::kCancelled, "cancelled, and the turn was discarded"};
  }
  commit(**std::move(generated_));
  return {};
}

void RunningTurn::note(Generation& generation) {
  turn_.text = generation.text;
  turn_.finish_reason = generation.finish_reason;
  turn_.stop_string = generation.stop_string;
  turn_.end_of_turn = generation.end_of_turn;
  if (generation.end_of_turn) note_stop_token(*generation.end_of_turn);
  turn_.logprobs = std::move(generation.logprobs);
  if (reply_) end_reply();
  if (!splits_ && turn_.text.size() > generation.n_text_taken) {
    ready_.push_back({.kind = TurnEvent::Kind::kText, .text = turn_.text.substr(generation.n_text_taken)});
  }
  const AnswerProgress& progress = answer_->progress();
  Usage& usage = turn_.usage;
  usage.n_cached = answer_->n_cached();
  usage.n_prefilled = usage.n_prompt - usage.n_cached;
  // Tokens that another session prefilled meanwhile do not count as prefilled again.
  usage.n_reprefilled = saturating_sub(usage.n_reprefilled, saturating_sub(usage.n_cached, lease_->n_found()));
  if (usage.n_reprefilled == 0 && turn_.lost_prefix && is_missing_rows(turn_.lost_prefix->cause)) {
    turn_.lost_prefix.reset();
  }
  usage.n_decoded = progress.n_sampled;
  usage.n_drafts = progress.n_drafts;
  usage.n_drafted = progress.n_drafted;
  usage.n_accepted = progress.n_accepted;
  meter_.add({progress.timings, progress.work});
  KvCacheEntry& entry = lease_->entry();
  meter_.work().kv_bytes_copied += lease_->n_pages_copied() * entry.layout().page_bytes();
  meter_.work().pages_touched += pages_from(usage.n_cached, progress.length);
  if (options_.speculate) meter_.work().tokens_indexed += usage.n_decoded;
}

void RunningTurn::note_stop_token(TokenId id) {
  const std::vector<TokenId>& ends = engine_.tokenizer().end_of_turn();
  if (std::ranges::find(ends, id) != ends.end()) return;
  turn_.finish_reason = FinishReason::kStopString;
  turn_.stop_string = engine_.tokenizer().token_bytes(id);
}

const Json* RunningTurn::offered_tools() const {
  const auto tools = setting_.variables->find("tools");
  const bool any = options_.parse_calls && tools != setting_.variables->end() && tools->is_array() && !tools->empty();
  return any ? &*tools : nullptr;
}

void RunningTurn::begin_reply(const PromptDelta& delta) {
  constexpr size_t kMarkerBytes = 256;  // bytes at the end of the prompt that may be a marker of reasoning
  const ReplyFormat& format = engine_.reply_format();
  const size_t n_continued = delta.n_continued.value_or(0);
  const std::string end = end_of_prompt(delta, branch_.dialogue.transcript(), n_continued + kMarkerBytes);
  const std::string_view prompt = std::string_view(end).substr(0, end.size() - n_continued);
  turn_.begins_in_reasoning = opens_reasoning(format, prompt);
  ReplyContext context;
  context.tools = offered_tools();
  context.begins_in_reasoning = turn_.begins_in_reasoning;
  context.demands_call = options_.demands_call;
  // Calls are streamed under two conditions. A constraint makes every call valid, because an emitted event cannot be
  // withdrawn. And the id of a call comes before its arguments.
  context.stream_calls = options_.constraint != nullptr && !has_late_ids(format);
  shown_ = shown_tokens(engine_, context.tools != nullptr);
  reply_.emplace(format, context, turn_.seed + turn_.usage.n_prompt, std::string_view(end).substr(prompt.size()));
}

Status RunningTurn::begin_constraint(const PromptDelta& delta) {
  constraint_ = options_.constraint;
  if (constraint_ == nullptr || !continued_) return {};
  // The content of a given answer is continued; the prompt shows its reasoning before it.
  const std::string prefix = end_of_prompt(delta, branch_.dialogue.transcript(), delta.n_continued.value_or(0));
  const std::string_view content = delta.keeps_reply && reply_ ? std::string_view(reply_->content_so_far()) : prefix;
  const Tokenizer& tokenizer = engine_.tokenizer();
  const Tokens ids = tokenizer.encode(content, TextOrigin::kInput);
  TRY_ASSIGN(constraint_, constraint_after(*constraint_, ids, tokenizer.vocab_size()));
  return {};
}

void RunningTurn::end_reply() {
  const ReplyParser::Listener keep = [this](const TurnEvent& part) { ready_.push_back(part); };
  whole_ = reply_->finish(turn_.text, splits_ ? keep : ReplyParser::Listener());
  turn_.reasoning = reply_->added_reasoning(whole_);
  turn_.content = reply_->added_content(whole_);
  for (const ParsedCall& call : whole_.calls) turn_.tool_calls.push_back({call.id, call.name, call.arguments});
}

// Calls are fields of the message, so that the template can assign results to them. Reasoning is a field if the format
// has channels, or if the prompt opens the reasoning, because then the text does not show where it starts. Otherwise
// the text is the content, as the template renders it.
Json RunningTurn::message_to_keep(std::string text) const {
  const bool thinks_on = turn_.begins_in_reasoning && !whole_.reasoning.empty();
  const bool has_parts = reply_ && (!whole_.calls.empty() || engine_.reply_format().channels || thinks_on);
  Json message = has_parts ? message_for_template(protocol_message(whole_), engine_.reply_format())
                           : make_message(Role::kAssistant, std::move(text));
  if (!continued_) return message;
  const Json& before = continued_->message;
  if (!has_parts) {
    // Sampled tokens stay up to the last whole character; a text that the caller supplied stays as it is.
    const PromptDelta& delta = plan_->delta;
    const std::string* given = content_of(before);
    const std::string prefix = delta.keeps_reply || given == nullptr
                                   ? end_of_prompt(delta, branch_.dialogue.transcript(), delta.n_continued.value_or(0))
                                   : *given;
    set_content(message, prefix + *content_of(message));
  }
  for (const auto& [name, value] : before.get_ref<const Json::object_t&>()) {
    if (!message.contains(name)) message[name] = value;
  }
  return message;
}

void RunningTurn::commit(Generation generation) {
  Dialogue& dialogue = branch_.dialogue;
  const size_t n_prompt = plan_->delta.n_prompt, n_keep = plan_->delta.n_keep;
  SampledReply reply = reply_of(generation, engine_.tokenizer());
  Json message = message_to_keep(std::move(generation.text));
  dialogue.append_answer(plan_->delta, std::move(reply), std::move(message));
  // Nothing below fails.
  const size_t n_computed = answer_->progress().length;
  answer_.reset();
  if (plan_->fitted) plan_->fitted->commit();
  edit_->commit();
  const TokenSpan ids = dialogue.transcript().ids();
  branch_.history_indexes.settle(n_keep, ids.size(), options_.speculate, counts_);
  {
    const Stopwatch watch = meter_.time(&Timings::match_ms);
    lease_->keep({ids, n_prompt, n_computed, std::move(generation.prompt_logits), dialogue.first_turn_boundary()});
  }
  lease_.reset();
  turn_.work = meter_.cost().work;
  Timings& timings = turn_.timings = meter_.cost().timings;
  timings.total_ms = meter_.elapsed_ms();
  timings.prefill_tps = per_second(turn_.usage.n_prefilled, timings.prefill_ms);
  const size_t n_after_first = saturating_sub(turn_.usage.n_decoded, size_t{1});
  timings.decode_tps = per_second(n_after_first, timings.decode_ms + timings.sample_ms);
  dialogue.settle(turn_.usage, timings);
}

}  // namespace ibid
