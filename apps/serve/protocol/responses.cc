#include "apps/serve/protocol/responses.h"

#include <memory>
#include <utility>

#include "apps/logprobs_json.h"
#include "apps/serve/protocol/answer_fields.h"
#include "apps/serve/protocol/answer_json.h"
#include "apps/serve/protocol/chat_messages.h"
#include "apps/serve/protocol/openai_chat_stream.h"
#include "apps/serve/protocol/responses_items.h"
#include "apps/serve/protocol/responses_stream.h"
#include "runtime/session/turn_reply.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

Json response_usage(const TokenCounts& counts) {
  Json input = Json::object();
  input["cached_tokens"] = counts.n_cached;
  Json output = Json::object();
  output["reasoning_tokens"] = counts.n_reasoning;
  Json usage = Json::object();
  usage["input_tokens"] = counts.n_prompt;
  usage["input_tokens_details"] = std::move(input);
  usage["output_tokens"] = counts.n_completion;
  usage["output_tokens_details"] = std::move(output);
  usage["total_tokens"] = counts.n_prompt + counts.n_completion;
  return usage;
}

// A field as the request had it, else what stands for its absence.
Json echoed(const ResponseCall& call, const char* name, const char* otherwise) {
  const Json* value = member(call.echo, name);
  return value != nullptr ? *value : Json::parse(otherwise);
}

Fault no_such_response(std::string param) {
  return {.status = 404, .message = "there is no response of that id, or it is no longer stored",
          .param = std::move(param), .code = "not_found"};
}

MaybeFault read_response(const Site& site, const http::Request& source, ResponseContext& context) {
  ResponseCall& call = context.call;
  Json body;
  if (MaybeFault fault = begin_request(site, source, body, call.request)) return fault;
  if (MaybeFault fault = read_fields(body, response_fields(), call)) return fault;
  // Tools are bare in this protocol and have been read; the shared row would want them wrapped.
  body.erase("tools");
  if (MaybeFault fault = read_answer_fields(body, call.request, true)) return fault;
  for (const char* name : {"tool_choice", "parallel_tool_calls", "temperature", "top_p", "truncation", "user"}) {
    if (const Json* value = member(body, name)) call.echo[name] = *value;
  }
  if (!call.wants_logprobs) {
    call.request.options.n_logprobs.reset();
  } else if (!call.request.options.n_logprobs) {
    call.request.options.n_logprobs = 0;
  }
  Json messages = Json::array();
  if (call.instructions.is_string()) {
    messages.push_back(make_message(Role::kSystem, call.instructions.get<std::string>()));
  }
  if (!call.previous_id.empty()) {
    auto found = site.responses->find(source.cache_namespace, call.previous_id);
    if (!found) return no_such_response("previous_response_id");
    context.previous = std::move(found->link);
    for (Json& message : found->history) messages.push_back(std::move(message));
  }
  for (const Json& message : call.input) messages.push_back(message);
  if (MaybeFault fault = check_awaits_answer(messages)) {
    fault->param = "input";
    return fault;
  }
  call.request.messages = std::move(messages);
  call.request.store = call.store;
  return {};
}

}  // namespace

Json response_json(const ResponseContext& context, const std::string& model, const char* status, Json output) {
  const ResponseCall& call = context.call;
  Json json = Json::object();
  json["id"] = context.id;
  json["object"] = "response";
  json["created_at"] = context.created;
  json["status"] = status;
  json["background"] = false;
  json["error"] = Json();
  json["incomplete_details"] = Json();
  json["instructions"] = call.instructions;
  json["max_output_tokens"] = echoed(call, "max_output_tokens", "null");
  json["model"] = model;
  json["output"] = std::move(output);
  json["parallel_tool_calls"] = echoed(call, "parallel_tool_calls", "true");
  json["previous_response_id"] = call.previous_id.empty() ? Json() : Json(call.previous_id);
  json["reasoning"] = echoed(call, "reasoning", R"({"effort":null,"summary":null})");
  json["store"] = call.store;
  json["temperature"] = echoed(call, "temperature", "null");
  json["text"] = echoed(call, "text", R"({"format":{"type":"text"}})");
  json["tool_choice"] = echoed(call, "tool_choice", "\"auto\"");
  json["tools"] = echoed(call, "tools", "[]");
  json["top_p"] = echoed(call, "top_p", "null");
  json["truncation"] = echoed(call, "truncation", "\"disabled\"");
  json["usage"] = Json();
  json["user"] = echoed(call, "user", "null");
  json["metadata"] = echoed(call, "metadata", "{}");
  return json;
}

Json output_logprobs(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer) {
  if (tokens.empty() || tokenizer == nullptr) return Json::array();
  return logprobs_json(tokens, *tokenizer)["content"];
}

namespace {

// Items of the answer, named after the response.
Json output_items(const ResponseContext& context, const Heard& heard, const Tokenizer* tokenizer) {
  Json items = Json::array();
  const Site& site = context.site;
  const Answer& answer = heard.answers.front();
  if (!answer.reasoning.empty()) items.push_back(reasoning_item(site.new_id("rs_"), answer.reasoning, "completed"));
  if (!answer.content.empty() || answer.tool_calls.empty()) {
    Json content = Json::array();
    content.push_back(output_text(answer.content, output_logprobs(heard.content_logprobs, tokenizer)));
    items.push_back(message_item(site.new_id("msg_"), std::move(content), "completed"));
  }
  for (const ToolCall& call : answer.tool_calls) items.push_back(call_item(site.new_id("fc_"), call, "completed"));
  return items;
}

}  // namespace

Json finished_response(const ResponseContext& context, const Heard& heard) {
  const Answer& answer = heard.answers.front();
  const auto tokenizer = tokenizer_of(context.site, heard.model);
  const bool is_cut = openai_finish_reason(answer) == "length";
  Json items = context.items.empty() ? output_items(context, heard, tokenizer.get()) : context.items;
  Json json = response_json(context, heard.model, is_cut ? "incomplete" : "completed", std::move(items));
  if (is_cut) {
    Json details = Json::object();
    details["reason"] = "max_output_tokens";
    json["incomplete_details"] = std::move(details);
  }
  json["usage"] = response_usage(count_tokens(heard.answers, tokenizer.get()));
  json["timings"] = llama_timings(answer);
  json["ibid"] = ibid_details(answer);
  if (context.call.store) {
    Json messages = context.call.input;
    messages.push_back(message_of_answer(answer));
    context.site.responses->put(context.cache_namespace, context.id, context.previous, messages, json_to_string(json));
  }
  return json;
}

void post_responses(const Site& site, const http::ExchangePtr& exchange) {
  ResponseContext context{.site = site, .id = site.new_id("resp_"),
                          .cache_namespace = exchange->request().cache_namespace, .created = site.now_s()};
  if (MaybeFault fault = read_response(site, exchange->request(), context)) {
    respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
    return;
  }
  AnswerRequest request = std::exchange(context.call.request, {});
  std::shared_ptr<AnswerListener> listener;
  if (context.call.stream) {
    listener = std::make_shared<ResponseStream>(exchange, std::move(context));
  } else {
    listener = std::make_shared<WholeReply>(
        exchange, 1, ErrorStyle::kOpenAi,
        [context = std::move(context)](const Heard& heard) { return finished_response(context, heard); });
  }
  site.backend->start(std::move(request), std::move(listener), exchange->gone());
}

void get_response(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  auto found = site.responses->find(exchange->request().cache_namespace, id);
  if (!found) return respond_fault(*exchange, no_such_response("response_id"), ErrorStyle::kOpenAi);
  exchange->respond({.body = std::move(found->response)});
}

void delete_response(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  if (!site.responses->remove(exchange->request().cache_namespace, id)) {
    return respond_fault(*exchange, no_such_response("response_id"), ErrorStyle::kOpenAi);
  }
  Json json = Json::object();
  json["id"] = id;
  json["object"] = "response";
  json["deleted"] = true;
  respond_json(*exchange, json);
}

}  // namespace ibid::serve
