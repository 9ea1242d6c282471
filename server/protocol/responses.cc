#include "server/protocol/responses.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "runtime/generate/logprobs_json.h"
#include "runtime/session/turn_reply.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/answer_json.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/item_list.h"
#include "server/protocol/openai_chat_stream.h"
#include "server/protocol/openai_conversations.h"
#include "server/protocol/responses_items.h"
#include "server/protocol/responses_stream.h"
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

Fault fault_of_response(const Site& site, const Status& status, const char* param) {
  return status.code() == ErrorCode::kNotFound ? no_such_response(param) : fault_of_store(site, status);
}

void refuse(const Site& site, const http::ExchangePtr& exchange, const Status& status) {
  respond_fault(*exchange, fault_of_response(site, status, "response_id"), ErrorStyle::kOpenAi);
}

// All items up to the output of a response that was found. Error: kNotFound: its conversation has them no more.
Result<Json> items_of(const Site& site, const std::string& cache_namespace, const StoredResponse& response) {
  Json items = Json::array();
  if (response.conversation_id.empty()) {
    for (const Json* some : {&response.in_front, &response.items}) {
      for (const Json& item : *some) items.push_back(item);
    }
    return items;
  }
  TRY_ASSIGN(StoredConversation conversation,
             site.store->find_conversation(cache_namespace, response.conversation_id));
  const Json& last = response.items.back()["id"];
  for (Json& item : conversation.items) {
    items.push_back(std::move(item));
    if (items.back()["id"] == last) return items;
  }
  return Status(ErrorCode::kNotFound, "the conversation has its items no more");
}

// What the request goes on from: a response, a conversation, or nothing.
MaybeFault find_history(const Site& site, const std::string& cache_namespace, ResponseContext& context) {
  const ResponseCall& call = context.call;
  if (!call.previous_id.empty() && !call.conversation_id.empty()) {
    return Fault{.message = "goes without previous_response_id: one says what is in front, or the other",
                 .param = "conversation"};
  }
  if (!call.conversation_id.empty()) {
    auto taken = site.store->take_conversation(cache_namespace, call.conversation_id);
    if (!taken.ok()) {
      Fault fault = fault_of_conversation(site, taken.status());
      fault.param = "conversation";
      return fault;
    }
    context.conversation = *std::move(taken);
    context.in_front = context.conversation->conversation().items;
    return {};
  }
  if (call.previous_id.empty()) return {};
  const Result<StoredResponse> found = site.store->find_response(cache_namespace, call.previous_id);
  Result<Json> items = found.ok() ? items_of(site, cache_namespace, *found) : found.status();
  if (!items.ok()) return fault_of_response(site, items.status(), "previous_response_id");
  context.in_front = *std::move(items);
  if (found->conversation_id.empty()) context.previous_id = call.previous_id;
  return {};
}

// Puts items in the place of references to them. The fault's param goes on from "input".
MaybeFault resolve_references(const Site& site, const std::string& cache_namespace, const Json& in_front, Json& input) {
  if (!input.is_array()) return {};
  for (size_t i = 0; i < input.size(); ++i) {
    const std::string* type = text_member(input[i], "type");
    if (type == nullptr || *type != "item_reference") continue;
    const std::string place = "[" + std::to_string(i) + "].id";
    const std::string* id = text_member(input[i], "id");
    if (id == nullptr) return Fault{.message = "must be a text", .param = place, .code = "invalid_type"};
    Json found;
    for (const Json& item : in_front) {
      if (item["id"] == *id) found = item;
    }
    if (found.is_null()) {
      Result<Json> kept = site.store->find_item(cache_namespace, *id);
      if (!kept.ok()) return fault_of_store(site, kept.status());
      found = *std::move(kept);
    }
    if (found.is_null()) {
      return Fault{.status = 404, .message = "there is no item of that id, or it is no longer stored", .param = place,
                   .code = "not_found"};
    }
    input[i] = std::move(found);
  }
  return {};
}

// The conversation as messages: instructions, what is in front, the input. Leaves the input as items that are kept.
MaybeFault read_items(const Site& site, ResponseContext& context, Json& messages) {
  ResponseCall& call = context.call;
  const std::string& cache_namespace = context.cache_namespace;
  if (MaybeFault fault = find_history(site, cache_namespace, context)) return fault;
  Json own = Json::array();
  MaybeFault fault = resolve_references(site, cache_namespace, context.in_front, call.input);
  if (!fault) fault = read_input(call.input, own);
  if (fault) {
    fault->param = "input" + fault->param;
    return fault;
  }
  call.input = stored_items(call.input, site.new_id);
  if (call.instructions.is_string()) {
    messages.push_back(make_message(Role::kSystem, call.instructions.get<std::string>()));
  }
  // Read as one: a call and its reasoning may stand on both sides of the border.
  Json items = context.in_front;
  for (const Json& item : call.input) items.push_back(item);
  fault = read_input(items, messages);
  if (!fault) fault = check_awaits_answer(messages);
  if (fault) fault->param = "input";
  return fault;
}

MaybeFault read_response(const Site& site, const http::Request& source, ResponseContext& context) {
  ResponseCall& call = context.call;
  Json body;
  if (MaybeFault fault = begin_request(site, source, body, call.request)) return fault;
  context.cache_namespace = call.request.cache_namespace;  // without the salt, which may change between requests
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
  if (MaybeFault fault = read_items(site, context, messages)) return fault;
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
  if (context.conversation != nullptr) {
    json["conversation"] = Json::object();
    json["conversation"]["id"] = call.conversation_id;
  }
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
  if (is_cut(answer)) items[items.size() - 1]["status"] = "incomplete";  // its last one
  return items;
}

// Keeps the response, and makes it part of its conversation. Fault: there is no room for it there, or the disk fails.
MaybeFault keep(const ResponseContext& context, const Json& response) {
  const Site& site = context.site;
  StoredResponse kept{.id = context.id, .previous_id = context.previous_id, .items = context.call.input,
                      .n_output = response["output"].size(), .conversation_id = context.call.conversation_id};
  for (const Json& item : response["output"]) kept.items.push_back(item);
  if (context.call.store) {
    kept.response = json_to_string(response);
    if (context.conversation == nullptr) kept.in_front = context.in_front;
    const Status status = site.store->put_response(context.cache_namespace, kept);
    // One that is too large is not kept.
    if (!status.ok() && status.code() != ErrorCode::kLimitExceeded) return fault_of_store(site, status);
  }
  if (context.conversation == nullptr) return {};
  Json all = context.in_front;
  for (const Json& item : kept.items) all.push_back(item);
  const Status status = context.conversation->commit(all);
  return status.ok() ? MaybeFault() : fault_of_conversation(site, status);
}

}  // namespace

bool is_cut(const Answer& answer) { return openai_finish_reason(answer) == "length"; }

Json finished_response(const ResponseContext& context, const Heard& heard) {
  const Answer& answer = heard.answers.front();
  const Tokenizer* tokenizer = heard.tokenizer.get();
  Json items = context.items.empty() ? output_items(context, heard, tokenizer) : context.items;
  Json json = response_json(context, heard.model, is_cut(answer) ? "incomplete" : "completed", std::move(items));
  if (is_cut(answer)) {
    Json details = Json::object();
    details["reason"] = "max_output_tokens";
    json["incomplete_details"] = std::move(details);
  }
  json["usage"] = response_usage(count_tokens(heard.answers, tokenizer));
  json["timings"] = llama_timings(answer);
  json["ibid"] = ibid_details(answer);
  if (MaybeFault fault = keep(context, json)) {
    json["status"] = "failed";
    json["error"] = Json::object();
    json["error"]["code"] = fault->code;
    json["error"]["message"] = fault->text();
  }
  return json;
}

void post_responses(const Site& site, const http::ExchangePtr& exchange) {
  ResponseContext context{.site = site, .id = site.new_id("resp_"), .created = site.now_s()};
  if (MaybeFault fault = read_response(site, exchange->request(), context)) {
    respond_fault(*exchange, *fault, ErrorStyle::kOpenAi);
    return;
  }
  AnswerRequest request = std::exchange(context.call.request, {});
  Later later;  // the thread that hears answers waits for no disk
  if (context.call.store || context.conversation != nullptr) {
    later = [backend = site.backend](std::function<void()> work) { backend->write_behind(std::move(work)); };
  }
  std::shared_ptr<AnswerListener> listener;
  if (context.call.stream) {
    auto stream = std::make_shared<ResponseStream>(exchange, std::move(context));
    stream->set_later(std::move(later));
    listener = std::move(stream);
  } else {
    listener = std::make_shared<WholeReply>(
        exchange, 1, ErrorStyle::kOpenAi,
        [context = std::move(context)](const Heard& heard) { return finished_response(context, heard); },
        std::move(later));
  }
  site.backend->start(std::move(request), std::move(listener), exchange->gone());
}

void get_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                  const std::string& id) {
  Result<StoredResponse> found = site.store->find_response(cache_namespace, id);
  if (!found.ok()) return refuse(site, exchange, found.status());
  exchange->respond({.body = std::move(found->response)});
}

void delete_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id) {
  const Status status = site.store->remove_response(cache_namespace, id);
  if (!status.ok()) return refuse(site, exchange, status);
  respond_json(*exchange, Json::object({{"id", id}, {"object", "response"}, {"deleted", true}}));
}

void get_input_items(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id) {
  const Result<StoredResponse> found = site.store->find_response(cache_namespace, id);
  Result<Json> items = found.ok() ? items_of(site, cache_namespace, *found) : found.status();
  if (!items.ok()) return refuse(site, exchange, items.status());
  items->erase(items->end() - static_cast<std::ptrdiff_t>(found->n_output), items->end());
  respond_items(*exchange, *std::move(items));
}

void cancel_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id) {
  const Result<StoredResponse> found = site.store->find_response(cache_namespace, id);
  if (!found.ok()) return refuse(site, exchange, found.status());
  const Fault over{.message = "is over: an answer comes with its request, and ends with its connection",
                   .param = "response_id", .code = "not_cancellable"};
  respond_fault(*exchange, over, ErrorStyle::kOpenAi);
}

}  // namespace ibid::serve
