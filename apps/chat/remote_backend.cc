#include "apps/chat/remote_backend.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "apps/sessions/message_text.h"
#include "apps/terminal/terminal_text.h"
#include "base/utf8.h"
#include "templates/message.h"

namespace ibid {

namespace {

constexpr const char* kReasoningField = "reasoning_content";
constexpr const char* kOurs = "ibid";

Status unsupported(const std::string& what) { return {ErrorCode::kUnsupported, what}; }

// Returns the request field of an option: its name with '_' for '-'. Other servers use most of these names too.
std::string field_name(const SamplingOption& option) {
  std::string name = option.name();
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Returns 0.7 for "0.7", true for "on", null for words that mean the default, like unlimited and random.
Json field_value(const std::string& text) {
  if (text == "on" || text == "off") return text == "on";
  const Result<Json> number = parse_json(text, "value");
  return number.ok() && number->is_number() ? *number : Json();
}

void add_bias(const SamplerOptions& sampler, Json& request) {
  constexpr double kNever = -100;  // lowest bias that the protocol allows: the token is never sampled
  for (const auto& [id, bias] : sampler.logit_bias) {
    request["logit_bias"][std::to_string(id)] = std::isfinite(bias) ? bias : kNever;
  }
}

FinishReason finish_reason(const ChatReply& reply) {
  if (reply.was_stopped) return FinishReason::kCancelled;
  if (reply.finish_reason == "length") return FinishReason::kLength;
  if (reply.finish_reason == "repetition") return FinishReason::kRepetition;
  return FinishReason::kStop;
}

// Emits the parts of an answer as TurnEvents, with the reasoning between "<think>" and "</think>".
class PartEmitter {
 public:
  PartEmitter(const TurnCallback& on_event, std::string& text) : on_event_(on_event), text_(text) {}

  void emit(const ChatPart& part) {
    if (part.kind == ChatPart::Kind::kReading) {
      emit({.kind = TurnEvent::Kind::kPrefill, .n_done = part.n_done, .n_total = part.n_total});
      return;
    }
    if (part.kind == ChatPart::Kind::kCall) return emit_call(part);
    const bool is_reasoning = part.kind == ChatPart::Kind::kReasoning;
    if (is_reasoning && !reasons_) emit_text("<think>\n");
    if (!is_reasoning) end_reasoning();
    reasons_ = is_reasoning;
    emit_text(part.text);
  }
  void end_reasoning() {
    if (std::exchange(reasons_, false)) emit_text(text_.ends_with('\n') ? "</think>\n\n" : "\n</think>\n\n");
  }

  void end_call() {
    if (std::exchange(calls_, false)) emit_text("\n");
  }

 private:
  // Emits "look_up {"city": "Rome"}" on a line of its own.
  void emit_call(const ChatPart& part) {
    end_reasoning();
    if (part.begins) {
      end_call();
      if (!text_.empty() && !text_.ends_with('\n')) emit_text("\n");
      emit_text("calls ");
    } else if (!text_.ends_with(' ') && part.text.starts_with('{')) {
      emit_text(" ");
    }
    calls_ = true;
    emit_text(part.text);
  }
  void emit_text(std::string_view text) {
    text_ += text;
    emit({.kind = TurnEvent::Kind::kText, .text = std::string(text)});
  }
  void emit(const TurnEvent& event) const {
    if (on_event_) on_event_(event);
  }

  const TurnCallback& on_event_;
  std::string& text_;
  bool reasons_ = false;
  bool calls_ = false;  // the last part belonged to a tool call
};

Turn turn_of(const ChatReply& reply, const TurnOptions& options) {
  Turn turn;
  turn.reasoning = reply.reasoning;
  turn.content = reply.content;
  turn.tool_calls = reply.tool_calls;
  turn.lost_prefix = reply.lost_prefix;
  turn.finish_reason = finish_reason(reply);
  turn.seed = reply.seed.value_or(options.sampler.seed.value_or(0));
  turn.usage.n_prompt = reply.n_prompt.value_or(0);
  turn.usage.n_cached = std::min(reply.n_cached.value_or(0), turn.usage.n_prompt);
  turn.usage.n_prefilled = turn.usage.n_prompt - turn.usage.n_cached;
  turn.usage.n_decoded = reply.n_completion_tokens.value_or(0);
  turn.timings.ttft_ms = reply.first_ms;
  turn.timings.total_ms = reply.total_ms;
  turn.timings.decode_ms = reply.last_ms - reply.first_ms;
  if (turn.usage.n_decoded > 1 && turn.timings.decode_ms > 0) {
    turn.timings.decode_tps = static_cast<double>(turn.usage.n_decoded - 1) * 1000 / turn.timings.decode_ms;
  }
  return turn;
}

Json message_of(const ChatReply& reply) {
  Json message = make_message(Role::kAssistant, reply.content);
  if (!reply.reasoning.empty()) message[kReasoningField] = reply.reasoning;
  for (const ToolCall& call : reply.tool_calls) {
    Json function = Json::object();
    function["name"] = call.name;
    function["arguments"] = call.arguments;
    message["tool_calls"].push_back({{"id", call.id}, {"type", "function"}, {"function", std::move(function)}});
  }
  return message;
}

// Adds an answer to the messages. If the last message is an answer, appends the text of `answer` to it.
Json with_answer(Json messages, Json answer) {
  if (messages.empty() || !is_from(messages.back(), Role::kAssistant)) {
    messages.push_back(std::move(answer));
    return messages;
  }
  for (const auto& [name, value] : answer.get_ref<const Json::object_t&>()) {
    Json& there = messages.back()[name];
    const bool grows = name != "role" && there.is_string() && value.is_string();
    there = grows ? Json(there.get<std::string>() + value.get<std::string>()) : value;
  }
  return messages;
}

// Adds advice for this client to the server's error about a full context.
Status with_advice(const Status& status) {
  const std::string& text = status.message();
  const bool is_about_context =
      status.code() == ErrorCode::kInvalidArgument && text.find("context") != std::string::npos;
  if (!is_about_context) return status;
  return {status.code(),
          text + "\nto fix this: /undo removes the last turn, /edit shortens a message, /clear begins anew"};
}

}  // namespace

std::string RemoteModel::name() const {
  return (model.name.empty() ? "" : one_line(model.name) + " at ") + server.name();
}

Result<std::shared_ptr<RemoteModel>> find_remote_model(ServerAddress address, const std::string& name) {
  auto remote = std::make_shared<RemoteModel>(RemoteModel{.server = ChatServer(std::move(address))});
  remote->model.name = name;
  Result<std::vector<ServedModel>> models = remote->server.models();
  if (!models.ok() && models.status().code() == ErrorCode::kNotFound && !name.empty()) return remote;
  TRY(models.status());
  if (name.empty() && models->empty()) {
    return Status(ErrorCode::kNotFound, remote->server.name() + " has no model; --model NAME asks it for one");
  }
  for (const ServedModel& model : *models) {
    if (!name.empty() && model.name != name) continue;
    remote->model = model;
    return remote;
  }
  // The server may accept a name that it does not list; otherwise the request will fail. Take the kind of server
  // (`owner`) from another model in the list.
  if (!models->empty()) remote->model.owner = models->front().owner;
  return remote;
}

void limit_answers_for_people(RemoteModel& model, TurnOptions& options) {
  const TurnOptions spared = terminal_defaults(model.model.context);
  const auto take = [&](const char* name) {
    const SamplingOption* option = find_sampling_option(name);
    if (model.given.insert(option).second) CHECK(option->set(options, option->get(spared)).ok());
  };
  if (model.model.context > 0) take("max-tokens");
  if (model.model.owner == kOurs) take("stop-repetition");
}

RemoteBackend::RemoteBackend(std::shared_ptr<RemoteModel> model, const std::string& system) : model_(std::move(model)) {
  if (!system.empty()) messages_.push_back(make_message(Role::kSystem, system));
}

Json RemoteBackend::request_of(const Json& messages, const TurnOptions& options) const {
  Json request = model_->fields;
  if (!model_->model.name.empty()) request["model"] = model_->model.name;
  request["messages"] = messages;
  if (!messages.empty() && is_from(messages.back(), Role::kAssistant)) {
    request["continue_final_message"] = true;
    request["add_generation_prompt"] = false;
  }
  const bool is_ours = model_->model.owner == kOurs;
  if (is_ours) request["return_progress"] = true;
  for (Json& message : request["messages"]) {
    if (!is_ours) message.erase(kReasoningField);  // some servers reject messages with this field
  }
  for (const SamplingOption* option : model_->given) {
    if (Json value = field_value(option->get(options)); !value.is_null()) {
      request[field_name(*option)] = std::move(value);
    }
  }
  if (!options.stop_strings.empty()) request["stop"] = options.stop_strings;
  if (options.dry_sequence_breakers != TurnOptions().dry_sequence_breakers) {
    request["dry_sequence_breakers"] = options.dry_sequence_breakers;
  }
  add_bias(options.sampler, request);
  return request;
}

Result<Turn> RemoteBackend::answer_to(Json messages, const TurnOptions& options, const TurnCallback& on_event) {
  std::string text;
  PartEmitter emitter(on_event, text);
  const auto emit = [&](const ChatPart& part) { emitter.emit(part); };
  const Result<ChatReply> reply = model_->server.complete(request_of(messages, options), options.stop, emit);
  if (!reply.ok()) return with_advice(reply.status());
  if (reply->was_stopped && reply->n_parts == 0) return Status(ErrorCode::kCancelled, "stopped before the first word");
  emitter.end_reasoning();
  emitter.end_call();
  Turn turn = turn_of(*reply, options);
  turn.text = std::move(text);
  messages_ = with_answer(std::move(messages), message_of(*reply));
  usage_ += turn.usage;
  last_ = turn.timings;
  n_last_ = turn.usage.n_prompt + turn.usage.n_decoded;
  if (on_event) on_event({.kind = TurnEvent::Kind::kFinish, .turn = &turn});
  return turn;
}

Result<Turn> RemoteBackend::send(std::string_view message, const TurnOptions& options, const TurnCallback& on_event) {
  if (!utf8_is_valid(message)) return Status(ErrorCode::kInvalidArgument, "the message is not valid UTF-8");
  Json messages = messages_;
  messages.push_back(make_message(Role::kUser, std::string(message)));
  return answer_to(std::move(messages), options, on_event);
}

Result<Turn> RemoteBackend::answer(const TurnOptions& options, const TurnCallback& on_event) {
  return answer_to(messages_, options, on_event);
}

Result<Turn> RemoteBackend::regenerate(const TurnOptions& options, const TurnCallback& on_event) {
  const size_t question = last_from(messages_, Role::kUser);
  if (question == messages_.size()) return Status(ErrorCode::kInvalidArgument, "nothing to answer yet");
  Json messages = Json::array();
  for (size_t i = 0; i <= question; ++i) messages.push_back(messages_[i]);
  return answer_to(std::move(messages), options, on_event);
}

Result<Turn> RemoteBackend::continue_answer(const TurnOptions& options, const TurnCallback& on_event) {
  if (messages_.empty() || !is_from(messages_.back(), Role::kAssistant)) {
    return Status(ErrorCode::kInvalidArgument, "there is no answer to continue");
  }
  return answer_to(messages_, options, on_event);
}

Result<std::vector<Turn>> RemoteBackend::send_for_answers(std::string_view, size_t, const TurnOptions&,
                                                          const AnswersCallback&) {
  return unsupported("a server generates one answer at a time: send the message, then /regen for others");
}

Status RemoteBackend::choose(size_t) { return unsupported("a server generates one answer at a time"); }

Status RemoteBackend::append(Json message) {
  messages_.push_back(std::move(message));
  return {};
}

Status RemoteBackend::rewind_to(size_t n_messages) {
  while (messages_.size() > n_messages) messages_.erase(messages_.size() - 1);
  n_last_ = 0;
  return {};
}

Status RemoteBackend::set_history(Json messages) {
  messages_ = std::move(messages);
  n_last_ = 0;
  return {};
}

Status RemoteBackend::reset() {
  const bool has_system = !messages_.empty() && is_from(messages_[0], Role::kSystem);
  return rewind_to(has_system ? 1 : 0);
}

Status RemoteBackend::set_system(std::string_view text) {
  if (!utf8_is_valid(text)) return {ErrorCode::kInvalidArgument, "the system message is not valid UTF-8"};
  TRY(rewind_to(0));
  if (!text.empty()) messages_.push_back(make_message(Role::kSystem, std::string(text)));
  return {};
}

Status RemoteBackend::pin(size_t) {
  return unsupported("messages cannot be pinned: the server decides what it does when the context is full");
}

Status RemoteBackend::set_when_full(WhenFull) {
  return unsupported(
      "the server decides what it does when the context is full; if it refuses a message,\n"
      "/undo, /edit and /clear make room");
}

Result<std::unique_ptr<ChatBackend>> RemoteBackend::fork() const {
  auto copy = std::make_unique<RemoteBackend>(model_, "");
  copy->messages_ = messages_;
  copy->usage_ = usage_;
  copy->last_ = last_;
  copy->n_last_ = n_last_;
  return std::unique_ptr<ChatBackend>(std::move(copy));
}

Status RemoteBackend::can_be_kept() const {
  return unsupported(
      "a conversation with a server is not kept in a file; only those with a model of this machine "
      "are (ibid chat --resume NAME)");
}

Status RemoteBackend::save(const std::string&) const { return can_be_kept(); }

Result<std::unique_ptr<ChatBackend>> RemoteBackend::load(const std::string&) const { return can_be_kept(); }

Status RemoteBackend::note_option_set(const SamplingOption& option) {
  model_->given.insert(&option);
  return {};
}

std::vector<std::string> RemoteBackend::describe_model() const {
  const ServedModel& model = model_->model;
  std::vector<std::string> lines = {"model            " + (model.name.empty() ? "the server's" : one_line(model.name)),
                                    "server           " + model_->server.name()};
  if (model.context > 0) lines.push_back(formatted("context          %zu tokens", model.context));
  return lines;
}

std::vector<std::string> RemoteBackend::describe_costs() {
  ServedModel& model = model_->model;
  if (model.context == 0) {
    // The context may still be unknown, because the model may not have been loaded when the conversation began.
    const Result<std::vector<ServedModel>> models = model_->server.models();
    for (size_t i = 0; models.ok() && i < models->size(); ++i) {
      if ((*models)[i].name == model.name) model.context = (*models)[i].context;
    }
  }
  std::string turns = "turns            " + std::to_string(n_turns(messages_));
  if (n_last_ > 0) turns += ", " + std::to_string(n_last_) + " tokens of the context used";
  if (n_last_ > 0 && model.context > 0) {
    turns = formatted("turns            %zu, %zu of %zu tokens of the context used", n_turns(messages_), n_last_,
                      model.context);
  }
  return {turns,
          formatted("prompt tokens    %zu, of them %zu found in the server's cache", usage_.n_prompt, usage_.n_cached),
          formatted("generated tokens %zu", usage_.n_decoded),
          formatted("last turn        first token after %.1f ms, then %.0f tokens/s", last_.ttft_ms, last_.decode_tps)};
}

}  // namespace ibid
