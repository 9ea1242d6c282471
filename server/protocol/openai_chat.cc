#include "server/protocol/openai_chat.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "server/protocol/answer_fields.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/handlers.h"
#include "server/protocol/prompts.h"
#include "server/protocol/reply.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

void read_stream_options(const Json& value, ChatCall& call) {
  static constexpr Field<ChatCall> kOptions[] = {
      {{"include_usage", Shape::kBoolean}, set<&ChatCall::output, &ChatOutput::include_usage>},
      {{"continuous_usage_stats", Shape::kBoolean}, set<&ChatCall::output, &ChatOutput::continuous_usage>},
      ignored_field<ChatCall>("include_obfuscation", "chunks have no padding")};
  read_fields<ChatCall>(value, kOptions, call, ".");
  note_ignored(value, rules_of<ChatCall>(kOptions), call.request.ignored, "stream_options.");
}

void read_modalities(const Json& value, ChatCall&) {
  for (const Json& modality : value) {
    if (is_text(modality, "text")) continue;
    throw Fault{.message = "must be [\"text\"]: only text output is supported", .code = "unsupported_value"};
  }
}

constexpr std::string_view kMessagesSchema =
    R"({"type":"array","minItems":1,"items":{"$ref":"#/components/schemas/chat_message"}})";

constexpr Field<ChatCall> kChatFields[] = {
    model_field<ChatCall>(),
    {{"messages", Shape::kList, "the whole conversation; its last message is answered", 1, kMaxMessages,
      Standing::kRead, kMessagesSchema, true},
     [](const Json& value, ChatCall& call) {
       read_chat_messages(value, {"messages", call.request.ignored}, call.request.messages);
     }},
    {{"stream", Shape::kBoolean, "stream the answer as server-sent events"}, set<&ChatCall::stream>},
    {{"stream_options", Shape::kObject,
      "include_usage: send a last chunk with the usage; continuous_usage_stats, with it: the usage so far in each "
      "chunk",
      0, 0, Standing::kRead, kStreamOptionsSchema},
     read_stream_options},
    {{"max_tokens", Shape::kInteger,
      "maximum number of tokens of an answer; default and -1: as many as the context has room for; 0: only prefill", -1,
      kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"max_completion_tokens", Shape::kInteger, "the same as max_tokens, and takes precedence", -1, kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"n_predict", Shape::kInteger, "the same as max_tokens, and takes precedence", -1, kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"logprobs", Shape::kBoolean, "return the log-probability of each token of the answer"},
     set<&ChatCall::output, &ChatOutput::logprobs>},
    {{"top_logprobs", Shape::kInteger, "number of most likely alternatives per token; needs logprobs", 0, 20,
      Standing::kRead, "", false, "[0]"},
     set<&ChatCall::top_logprobs>},
    {{"continue_final_message", Shape::kBoolean,
      "whether the last message, the assistant's, is continued; default: true if it is the assistant's. The answer has "
      "only the added text"},
     set<&ChatCall::continue_final_message>},
    {{"add_generation_prompt", Shape::kBoolean,
      "whether the prompt ends in the beginning of a new answer; default: true unless the last message is continued. "
      "False for another message is supported by /apply-template only"},
     set<&ChatCall::add_generation_prompt>},
    prompt_logprobs_field<ChatCall>(),
    names_by_id_field<ChatCall, &ChatCall::output, &ChatOutput::names_by_id>(),
    {{"return_progress", Shape::kBoolean, "send chunks with prompt_progress during prefill; needs stream"},
     set<&ChatCall::output, &ChatOutput::return_progress>},
    {{"timings_per_token", Shape::kBoolean, "send the timings so far with each chunk; needs stream"},
     set<&ChatCall::output, &ChatOutput::timings>},
    {{"verbose", Shape::kBoolean, "return the rendered prompt as __verbose.prompt; in streams in the last chunk"},
     set<&ChatCall::output, &ChatOutput::verbose>},
    {{"return_token_ids", Shape::kBoolean,
      "return prompt_token_ids, in streams with the first chunk, and token_ids of each choice"},
     set<&ChatCall::output, &ChatOutput::token_ids>},
    {{"modalities", Shape::kList, "text", 1, 8, Standing::kRead,
      R"({"type":"array","items":{"const":"text"},"minItems":1,"maxItems":8})"},
     read_modalities},
    refused_field<ChatCall>("audio", "only text output is supported"),
    {{"web_search_options", Shape::kAny, "the server does not search the web", 0, 0, Standing::kIgnored}},
    ignored_field<ChatCall>("prediction", "drafts come from the conversation"),
    ignored_field<ChatCall>("store", "see /v1/responses"),
    ignored_field<ChatCall>("verbosity", "ask for it in a message"),
    {{"echo", Shape::kBoolean, "if the last message is continued: return its text before the added text"},
     set<&ChatCall::echo>},
};

// The fields that every chunk or whole answer has.
struct ChatNames {
  std::string id;
  int64_t created = 0;
  std::string fingerprint;

  Json json(const char* object, const std::string& model, Json choices) const {
    return {{"id", id},
            {"object", object},
            {"created", created},
            {"model", model},
            {"system_fingerprint", fingerprint},
            {"choices", std::move(choices)}};
  }
};

Json chat_choice(size_t i, const Heard& heard, const ChatOutput& output) {
  const Answer& answer = heard.answers[i];
  const std::string content = output.echoed + answer.content;
  const bool only_calls = content.empty() && !answer.tool_calls.empty();
  Json message = {{"role", "assistant"}, {"content", only_calls ? Json() : Json(content)}, {"refusal", Json()}};
  if (!answer.reasoning.empty()) message["reasoning_content"] = answer.reasoning;
  for (const ToolCall& call : answer.tool_calls) {
    message["tool_calls"].push_back(tool_call_json(call.id, call.name, call.arguments));
  }
  Json choice = {
      {"index", i},
      {"message", std::move(message)},
      {"logprobs", output.logprobs ? logprobs_of(answer.logprobs, heard.tokenizer.get(), output.names_by_id) : Json()},
      {"finish_reason", openai_finish_reason(answer)}};
  choice["token_ids"] = output.token_ids ? last_ids_of(answer.logprobs, answer) : Json();
  return choice;
}

// Returns llama.cpp's "__verbose": the prompt of the first answer.
Json verbose_json(const Heard& heard) { return {{"prompt", prompt_text(heard, 0)}}; }

// Writes an answer as chunks. The first chunk of each choice has the role, the last the finish_reason; with
// include_usage another chunk has the usage and no choices; "[DONE]" ends the stream. An error after the start is an
// event with the error, without "[DONE]". Log-probabilities are in the chunk of their text; those of markers (special
// tokens, which have no text) are in the next chunk.
class ChatStream final : public StreamReply {
 public:
  ChatStream(http::ExchangePtr exchange, const Site& site, ChatNames names, const ChatCall& call)
      : StreamReply(std::move(exchange), call.request.n_answers()),
        names_(std::move(names)),
        output_(call.output),
        progress_(site.clock) {}

  void prefill(size_t n_done, size_t n_total) override {
    progress_.prefill(n_done, n_total);
    if (!output_.return_progress) return;
    Json json = chunk();
    json["prompt_progress"] = progress_.prompt_json();
    emit(json);
  }

 private:
  void opened() override {
    progress_.begin();
    for (size_t i = 0; i < heard_.answers.size(); ++i) {
      emit_delta(i, {{"role", "assistant"}, {"content", Json()}});
      if (!output_.echoed.empty()) content(i, output_.echoed);
    }
  }
  void content(size_t i, std::string_view text) override { emit_delta(i, {{"content", text}}); }
  void reasoning(size_t i, std::string_view text) override { emit_delta(i, {{"reasoning_content", text}}); }
  void called(size_t i, size_t call, std::string_view id, std::string_view name) override {
    emit_call(i,
              {{"index", call}, {"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", ""}}}});
  }
  void tool_arguments(size_t i, size_t call, std::string_view part) override {
    emit_call(i, {{"index", call}, {"function", {{"arguments", part}}}});
  }
  void answered(size_t i, const Answer& answer) override {
    const std::vector<TokenLogprobs> tokens = take_last_logprobs(i, answer);
    n_completion_ += tokens.size();
    Json json = chunk();
    json["choices"].push_back(choice(i, Json::object(), tokens, openai_finish_reason(answer)));
    if (output_.token_ids) json["choices"][0]["token_ids"] = last_ids_of(tokens, answer);
    // The timings are in the last chunk of the answer, as in llama.cpp.
    json["timings"] = llama_timings(answer);
    json["ibid"] = ibid_details(answer, heard_.ignored);
    add_prompt_ids(json);
    if (output_.verbose) json["__verbose"] = verbose_json(heard_);
    emit(json);
  }
  void finished() override {
    if (output_.include_usage) {
      Json json = chunk();
      add_costs(json, heard_);
      emit(json);
    }
    send_bytes("data: [DONE]\n\n");
  }

  Json chunk() const {
    Json json = names_.json("chat.completion.chunk", heard_.model, Json::array());
    if (output_.include_usage) json["usage"] = Json();
    if (output_.include_usage && output_.continuous_usage) json["usage"] = usage_so_far(heard_.n_prompt, n_completion_);
    return json;
  }
  Json choice(size_t i, Json delta, const std::vector<TokenLogprobs>& tokens, Json reason) const {
    Json json = {
        {"index", i},
        {"delta", std::move(delta)},
        {"logprobs", output_.logprobs ? logprobs_of(tokens, heard_.tokenizer.get(), output_.names_by_id) : Json()},
        {"finish_reason", std::move(reason)}};
    if (output_.token_ids) json["token_ids"] = ids_of(tokens);
    return json;
  }
  void emit_delta(size_t i, Json delta) {
    const std::vector<TokenLogprobs> tokens = take_logprobs(i);
    n_completion_ += tokens.size();
    progress_.decode(tokens.size());
    Json json = chunk();
    json["choices"].push_back(choice(i, std::move(delta), tokens, Json()));
    if (output_.timings && !tokens.empty()) json["timings"] = progress_.timings();
    add_prompt_ids(json);
    emit(json);
  }
  // Adds the tokens of the prompt once, to the first chunk for which they are known.
  void add_prompt_ids(Json& json) {
    const Tokens& ids = heard_.prompt_ids.front();
    if (output_.token_ids && !ids.empty() && !std::exchange(has_sent_ids_, true)) json["prompt_token_ids"] = ids;
  }
  void emit_call(size_t i, Json call) { emit_delta(i, {{"tool_calls", Json::array({std::move(call)})}}); }

  const ChatNames names_;
  const ChatOutput output_;
  StreamProgress progress_;
  size_t n_completion_ = 0;  // tokens of all answers so far, if they are counted
  bool has_sent_ids_ = false;
};

}  // namespace

// Reads continue_final_message and add_generation_prompt, which vLLM defines. is_answered: false if the prompt is only
// counted or rendered.
void read_chat_ending(ChatCall& call, bool is_answered) {
  const auto refuse = [](const char* param, const char* message) {
    throw Fault{.message = message, .param = param, .code = "unsupported_value"};
  };
  AnswerRequest& request = call.request;
  const bool ends_in_answer = !request.messages.empty() && is_from(request.messages.back(), Role::kAssistant);
  const bool adds = call.add_generation_prompt.value_or(false), goes_on = call.continue_final_message.value_or(false);
  if (adds && goes_on) refuse("add_generation_prompt", "cannot be true together with continue_final_message");
  if (goes_on && !ends_in_answer) refuse("continue_final_message", "needs a last message of the assistant");
  const bool continues = ends_in_answer && !adds && call.continue_final_message.value_or(true);
  if (!is_answered && !continues) {
    request.adds_generation_prompt = call.add_generation_prompt.value_or(true);
    return;
  }
  if (ends_in_answer && !continues) {
    refuse(adds ? "add_generation_prompt" : "continue_final_message",
           "a second answer after an answer is not supported: the last one is continued");
  }
  if (!ends_in_answer && call.add_generation_prompt == false) {
    refuse("add_generation_prompt", "must be true unless the last message is the assistant's");
  }
  read_ending(request);
}

std::vector<FieldRule> chat_rules() { return message_rules(rules_of<ChatCall>(kChatFields)); }

ChatCall read_chat(const Site& site, const http::Request& source, bool is_answered) {
  ChatCall call;
  static const std::vector<FieldRule> kRules = chat_rules();
  const Json body = begin_request(site, source, kRules, call.request);
  read_fields<ChatCall>(body, kChatFields, call);
  read_answer_fields(body, call.request, true);
  ChatOutput& output = call.output;
  if (call.top_logprobs && !output.logprobs) {
    throw Fault{.message = "needs logprobs to be true", .param = "top_logprobs"};
  }
  // Token ids come only with log-probabilities, so these are computed even if the client did not request them.
  const bool counts = output.continuous_usage || (output.timings && call.stream);
  const bool needs_ids = output.logprobs || output.token_ids || counts;
  if (needs_ids) call.request.options.n_logprobs = call.top_logprobs.value_or(0);
  call.request.returns_prompt_ids = output.token_ids || output.verbose;
  score_prompt(call.prompt_logprobs, call.stream, call.request);
  drop_client_lines(site, call.request);
  read_chat_ending(call, is_answered);
  if (call.echo && call.request.continues) {
    output.echoed = *content_of(call.request.messages.back());
  } else if (call.echo) {
    ignore(call.request.ignored, {.field = "echo", .reason = "no message is continued"});
  }
  return call;
}

std::shared_ptr<AnswerListener> make_chat_listener(const Site& site, const http::ExchangePtr& exchange,
                                                   const ChatCall& call) {
  const ChatNames names{site.new_id("chatcmpl-"), site.now_s(), site.fingerprint()};
  if (call.stream) return std::make_shared<ChatStream>(exchange, site, names, call);
  const auto whole = [names, output = call.output, prompt_logprobs = call.prompt_logprobs](const Heard& heard) {
    Json choices = Json::array();
    for (size_t i = 0; i < heard.answers.size(); ++i) choices.push_back(chat_choice(i, heard, output));
    Json json = names.json("chat.completion", heard.model, std::move(choices));
    json["prompt_token_ids"] = output.token_ids ? Json(heard.prompt_ids.front()) : Json();
    if (output.verbose) json["__verbose"] = verbose_json(heard);
    json["prompt_logprobs"] =
        prompt_logprobs_json(heard.prompt_scores[0].get(), prompt_logprobs.value_or(0), heard.tokenizer.get());
    add_costs(json, heard);
    return json;
  };
  return std::make_shared<WholeReply>(exchange, call.request.n_answers(), whole);
}

void post_chat_input_tokens(const Site& site, const http::ExchangePtr& exchange) {
  check_text_body(exchange->request());
  ChatCall call = read_chat(site, exchange->request());
  site.backend->encode_prompt(std::move(call.request), respond_input_tokens(exchange), exchange->gone());
}

void post_chat_render(const Site& site, const http::ExchangePtr& exchange) {
  check_text_body(exchange->request());
  ChatCall call = read_chat(site, exchange->request(), false);
  std::vector<AnswerRequest> requests;
  requests.push_back(std::move(call.request));
  const auto respond = [exchange](Json rendered) { respond_json(*exchange, rendered[0]); };
  start_rendering(site, exchange, "chatcmpl-", std::move(requests), respond);
}

void post_chat_completions(const Site& site, const http::ExchangePtr& exchange) {
  ChatCall call = read_chat(site, exchange->request());
  auto listener = make_chat_listener(site, exchange, call);
  site.backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

}  // namespace ibid::serve
