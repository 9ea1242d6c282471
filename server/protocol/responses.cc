#include "server/protocol/responses.h"

#include <cstddef>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/generate/logprobs_json.h"
#include "server/protocol/handlers.h"
#include "server/protocol/openai_conversations.h"
#include "server/protocol/prompts.h"
#include "server/protocol/reply.h"
#include "server/protocol/responses_items.h"

namespace ibid::serve {

namespace {

// Returns the value of a field in the request, or its default.
Json echoed(const ResponseCall& call, const char* name, const char* otherwise) {
  const Json* value = member(call.echo, name);
  return value != nullptr ? *value : Json::parse(otherwise);
}

// Makes the response object. status: "in_progress", "completed", "incomplete", "failed".
Json response_json(const ResponseContext& context, const std::string& model, const char* status, Json output) {
  const ResponseCall& call = context.call;
  Json json = {{"id", context.id},
               {"object", "response"},
               {"created_at", context.created},
               {"status", status},
               {"background", false}};
  if (context.conversation != nullptr) json["conversation"] = {{"id", call.conversation_id}};
  json.update({{"instructions", call.instructions},
               {"max_output_tokens", echoed(call, "max_output_tokens", "null")},
               {"model", model},
               {"output", std::move(output)},
               {"error", Json()},
               {"incomplete_details", Json()},
               {"parallel_tool_calls", echoed(call, "parallel_tool_calls", "true")},
               {"previous_response_id", call.previous_id.empty() ? Json() : Json(call.previous_id)},
               {"reasoning", echoed(call, "reasoning", R"({"effort":null,"summary":null})")},
               {"store", call.store},
               {"temperature", echoed(call, "temperature", "null")},
               {"text", echoed(call, "text", R"({"format":{"type":"text"}})")},
               {"tool_choice", echoed(call, "tool_choice", "\"auto\"")},
               {"tools", echoed(call, "tools", "[]")},
               {"top_p", echoed(call, "top_p", "null")},
               {"truncation", echoed(call, "truncation", "\"disabled\"")},
               {"usage", Json()},
               {"user", echoed(call, "user", "null")},
               {"metadata", echoed(call, "metadata", "{}")}});
  return json;
}

Json response_usage(const TokenCounts& counts) {
  return {{"input_tokens", counts.n_prompt},
          {"input_tokens_details", input_details(counts)},
          {"output_tokens", counts.n_completion},
          {"output_tokens_details", {{"reasoning_tokens", counts.n_reasoning}}},
          {"total_tokens", counts.n_prompt + counts.n_completion}};
}

// Returns log-probabilities in the form that events and output_text have: a list, which may be empty.
Json output_logprobs(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer) {
  if (tokens.empty() || tokenizer == nullptr) return Json::array();
  return logprobs_json(tokens, *tokenizer)["content"];
}

Json answer_item(const ResponseContext& context, const std::string& id, Json content, const char* status) {
  Json item = message_item(id, std::move(content), status);
  return context.continues ? continuing_item(std::move(item)) : item;
}

// Converts the answer to items.
Json output_items(const ResponseContext& context, const Heard& heard, const Tokenizer* tokenizer) {
  Json items = Json::array();
  const Site& site = context.site;
  const Answer& answer = heard.answers.front();
  if (!answer.reasoning.empty()) items.push_back(reasoning_item(site.new_id("rs_"), answer.reasoning, "completed"));
  if (!answer.content.empty() || answer.tool_calls.empty()) {
    Json content = Json::array();
    content.push_back(output_text(answer.content, output_logprobs(heard.content_logprobs, tokenizer)));
    items.push_back(answer_item(context, site.new_id("msg_"), std::move(content), "completed"));
  }
  for (const ToolCall& call : answer.tool_calls) items.push_back(call_item(site.new_id("fc_"), call, "completed"));
  if (is_cut(answer)) items[items.size() - 1]["status"] = "incomplete";  // only the last item was cut
  return items;
}

// Reports that a part of the storing has failed. Fault: the stored data is damaged. If the disk or the shared server
// fails, or if there is no room, the client has its answer nevertheless.
void note_not_stored(const ResponseContext& context, const char* field, const Status& status, IgnoredParts& ignored) {
  const bool is_full = status.code() == ErrorCode::kLimitExceeded;
  if (!is_full && status.code() != ErrorCode::kIo) throw fault_of_store(context.site, status);
  context.site.store->say({status.code(), context.id + ": " + field + ": " + status.message()});
  ignore(ignored, {.field = field,
                   .reason = is_full ? "not stored: the response is too large for the store"
                                     : "not stored: the store is not available"});
}

// Stores the response and appends it to its conversation. Notes what could not be stored. Faults: the stored data is
// damaged; another request has changed the conversation, or the conversation has become too large.
void keep(const ResponseContext& context, Json& response, IgnoredParts& ignored) {
  const Site& site = context.site;
  const Json& output = response["output"];
  StoredResponse kept{.id = context.id,
                      .previous_id = context.previous_id,
                      .items = context.call.input,
                      .n_output = output.size(),
                      .conversation_id = context.call.conversation_id};
  kept.items.insert(kept.items.end(), output.begin(), output.end());
  if (context.call.store) {
    kept.response = json_to_string(response);
    if (context.conversation == nullptr) kept.in_front = context.in_front;
    if (const Status status = site.store->put_response(context.cache_namespace, kept); !status.ok()) {
      note_not_stored(context, "store", status, ignored);
      response["store"] = false;
    }
  }
  if (context.conversation == nullptr) return;
  Json all = context.in_front;
  all.insert(all.end(), kept.items.begin(), kept.items.end());
  const Status status = context.conversation->commit(all);
  if (status.code() == ErrorCode::kIo) {
    note_not_stored(context, "conversation", status, ignored);
  } else if (!status.ok()) {
    throw fault_of_conversation(site, status);
  }
}

// Makes the object of a whole answer, with its usage, and stores it if the client wants that.
Json finished_response(const ResponseContext& context, const Heard& heard) {
  const Answer& answer = heard.answers.front();
  const Tokenizer* tokenizer = heard.tokenizer.get();
  Json items = context.items.empty() ? output_items(context, heard, tokenizer) : context.items;
  Json json = response_json(context, heard.model, is_cut(answer) ? "incomplete" : "completed", std::move(items));
  if (is_cut(answer)) json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  json["usage"] = response_usage(count_tokens(heard.answers, tokenizer));
  json["timings"] = llama_timings(answer);
  json["ibid"] = ibid_details(answer, heard.ignored);
  IgnoredParts ignored = heard.ignored;
  try {
    keep(context, json, ignored);
    if (ignored.size() > heard.ignored.size()) json["ibid"]["ignored"] = ignored_json(ignored);
  } catch (const Fault& fault) {
    json["status"] = "failed";
    json["error"] = {{"code", fault.code}, {"message", fault.text()}};
  }
  return json;
}

// Writes the events of a stream. Each has its name twice, as SSE event and as "type", and a sequence_number. Order:
// response.created, response.in_progress; for each item output_item.added, its content, output_item.done; then
// response.completed, response.incomplete or response.failed.
//
// Log-probabilities come with the delta of their text, and again for the whole message when it is done. The protocol
// has no place for those of reasoning and calls.
class ResponseStream final : public StreamReply {
 public:
  ResponseStream(http::ExchangePtr exchange, ResponseContext context)
      : StreamReply(std::move(exchange), 1), context_(std::move(context)), progress_(context_.site.clock) {}

  void prefill(size_t n_done, size_t n_total) override {
    progress_.prefill(n_done, n_total);
    if (!context_.call.progress) return;
    emit_next({{"type", "response.in_progress"},
               {"response", response_json(context_, heard_.model, "in_progress", Json::array())},
               {"prompt_progress", progress_.prompt_json()}});
  }

 private:
  enum class Item { kNone, kReasoning, kMessage, kCall };

  void opened() override {
    progress_.begin();
    for (const char* type : {"response.created", "response.in_progress"}) {
      emit_next({{"type", type}, {"response", response_json(context_, heard_.model, "in_progress", Json::array())}});
    }
  }
  void reasoning(size_t, std::string_view text) override {
    if (item_ != Item::kReasoning) {
      open(Item::kReasoning, "rs_");
      emit_of_item("response.content_part.added", {{"content_index", 0}, {"part", reasoning_text("")}});
    }
    text_ += text;
    (void)take_tokens();
    emit_of_item("response.reasoning_text.delta", with_timings({{"content_index", 0}, {"delta", text}}));
  }
  void content(size_t, std::string_view text) override {
    if (item_ != Item::kMessage) open_message();
    text_ += text;
    Json logprobs = keep_logprobs(take_tokens());
    emit_of_item("response.output_text.delta",
                 with_timings({{"content_index", 0}, {"delta", text}, {"logprobs", std::move(logprobs)}}));
  }
  void called(size_t, size_t, std::string_view id, std::string_view name) override {
    (void)take_tokens();
    close();
    call_ = {std::string(id), std::string(name), ""};
    open(Item::kCall, "fc_");
  }
  void tool_arguments(size_t, size_t, std::string_view part) override {
    call_.arguments += part;
    emit_of_item("response.function_call_arguments.delta", {{"delta", part}});
  }
  void answered(size_t i, const Answer& answer) override {
    if (n_items_ == 0) open_message();  // an empty answer is a message too
    if (item_ == Item::kMessage) (void)keep_logprobs(take_last_logprobs(i, answer));
    close(is_cut(answer) ? "incomplete" : "completed");
  }
  void finished() override {
    Json response = finished_response(context_, heard_);
    Json event = {{"type", "response." + response["status"].get<std::string>()}};
    if (context_.call.timings) event["timings"] = response["timings"];
    event["response"] = std::move(response);
    emit_next(std::move(event));
  }
  void failed(const Fault& fault) override {
    Json response = response_json(context_, heard_.model, "failed", context_.items);
    response["error"] = {{"code", fault.status >= 500 ? "server_error" : fault.code}, {"message", fault.text()}};
    emit_next({{"type", "response.failed"}, {"response", std::move(response)}});
  }

  void open_message() {
    open(Item::kMessage, "msg_");
    emit_of_item("response.content_part.added", {{"content_index", 0}, {"part", output_text("", Json::array())}});
  }
  void open(Item kind, const char* prefix) {
    const std::string id = context_.site.new_id(prefix);
    close();
    item_ = kind;
    item_id_ = id;
    text_.clear();
    logprobs_ = Json::array();
    emit_next({{"type", "response.output_item.added"}, {"output_index", n_items_++}, {"item", item("in_progress")}});
  }
  // Closes the open item with this status.
  void close(const char* status = "completed") {
    if (item_ == Item::kNone) return;
    if (item_ == Item::kReasoning) {
      emit_of_item("response.reasoning_text.done", {{"content_index", 0}, {"text", text_}});
      emit_of_item("response.content_part.done", {{"content_index", 0}, {"part", reasoning_text(text_)}});
    } else if (item_ == Item::kMessage) {
      emit_of_item("response.output_text.done", {{"content_index", 0}, {"text", text_}, {"logprobs", logprobs_}});
      emit_of_item("response.content_part.done", {{"content_index", 0}, {"part", output_text(text_, logprobs_)}});
    } else {
      emit_of_item("response.function_call_arguments.done", {{"name", call_.name}, {"arguments", call_.arguments}});
    }
    context_.items.push_back(item(status));
    emit_next({{"type", "response.output_item.done"}, {"output_index", n_items_ - 1}, {"item", context_.items.back()}});
    item_ = Item::kNone;
  }
  // Returns the open item in its current state.
  Json item(const char* status) const {
    if (item_ == Item::kReasoning) return reasoning_item(item_id_, text_, status);
    if (item_ == Item::kCall) return call_item(item_id_, call_, status);
    const bool begins = std::string_view(status) == "in_progress";
    return answer_item(context_, item_id_, begins ? Json::array() : Json::array({output_text(text_, logprobs_)}),
                       status);
  }
  // Returns the new log-probabilities as JSON, and adds them to those of the message.
  Json keep_logprobs(const std::vector<TokenLogprobs>& tokens) {
    if (!context_.call.wants_logprobs) return Json::array();
    Json all = output_logprobs(tokens, heard_.tokenizer.get());
    logprobs_.insert(logprobs_.end(), all.begin(), all.end());
    return all;
  }
  // Returns the tokens that were not returned before, with log-probabilities, and counts them.
  std::vector<TokenLogprobs> take_tokens() {
    std::vector<TokenLogprobs> tokens = take_logprobs(0);
    progress_.decode(tokens.size());
    return tokens;
  }
  Json with_timings(Json event) const {
    if (context_.call.timings) event["timings"] = progress_.timings();
    return event;
  }
  // Emits an event of the open item, with its id and index.
  void emit_of_item(const char* type, const Json& rest) {
    Json event = {{"type", type}, {"item_id", item_id_}, {"output_index", n_items_ - 1}};
    event.update(rest);
    emit_next(std::move(event));
  }
  void emit_next(Json event) {
    event["sequence_number"] = sequence_++;
    emit_named(event);
  }

  ResponseContext context_;
  StreamProgress progress_;
  size_t sequence_ = 0;
  size_t n_items_ = 0;       // items opened so far
  Item item_ = Item::kNone;  // kind of the open item
  std::string item_id_;
  std::string text_;               // text of the open item so far
  ToolCall call_;                  // the open call
  Json logprobs_ = Json::array();  // log-probabilities of the open message so far
};

}  // namespace

void post_responses(const Site& site, const http::ExchangePtr& exchange) {
  ResponseContext context{.site = site, .id = site.new_id("resp_"), .created = site.now_s()};
  read_response(site, exchange->request(), context);
  AnswerRequest request = std::exchange(context.call.request, {});
  Later later;  // end() waits for the disk, which the event thread must not do
  if (context.call.store || context.conversation != nullptr) {
    later = [backend = site.backend](std::function<void()> work) { backend->write_behind(std::move(work)); };
  }
  std::shared_ptr<ExchangeReply> listener;
  if (context.call.stream) {
    listener = std::make_shared<ResponseStream>(exchange, std::move(context));
  } else {
    listener = std::make_shared<WholeReply>(
        exchange, 1, [context = std::move(context)](const Heard& heard) { return finished_response(context, heard); });
  }
  listener->set_later(std::move(later));
  site.backend->start(std::move(request), std::move(listener), exchange->gone());
}

void post_response_input_tokens(const Site& site, const http::ExchangePtr& exchange) {
  check_text_body(exchange->request());
  ResponseContext context{.site = site};
  read_response(site, exchange->request(), context);
  site.backend->encode_prompt(std::move(context.call.request), respond_input_tokens(exchange), exchange->gone());
}

void get_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                  const std::string& id) {
  exchange->respond({.body = find_response(site, cache_namespace, id, "response_id").response});
}

void delete_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id) {
  const Status status = site.store->remove_response(cache_namespace, id);
  if (!status.ok()) throw fault_of_response(site, status, id, "response_id");
  respond_json(*exchange, {{"id", id}, {"object", "response"}, {"deleted", true}});
}

void get_input_items(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id) {
  const StoredResponse found = find_response(site, cache_namespace, id, "response_id");
  Json items = items_of(site, cache_namespace, found, "response_id");
  items.erase(items.end() - static_cast<std::ptrdiff_t>(found.n_output), items.end());
  respond_items(*exchange, std::move(items));
}

void cancel_response(const Site& site, const http::ExchangePtr&, const std::string& cache_namespace,
                     const std::string& id) {
  (void)find_response(site, cache_namespace, id, "response_id");
  throw Fault{.message = "Cannot cancel a synchronous response: background responses are not supported",
              .param = "response_id",
              .code = "not_cancellable"};
}

}  // namespace ibid::serve
