#include "server/protocol/openai_chat_stream.h"

#include <utility>

#include "server/protocol/answer_json.h"

namespace ibid::serve {

ChatStream::ChatStream(http::ExchangePtr exchange, Site site, CompletionNames names, ChatStreamOptions options)
    : StreamReply(std::move(exchange), options.n, ErrorStyle::kOpenAi, StreamForm::kEvents),
      site_(std::move(site)),
      names_(std::move(names)),
      options_(options),
      begin_ns_(site_.clock.steady_ns()) {}

Json ChatStream::chunk() const {
  Json json = Json::object();
  json["id"] = names_.id;
  json["object"] = "chat.completion.chunk";
  json["created"] = names_.created;
  json["model"] = heard().model;
  json["choices"] = Json::array();
  if (options_.include_usage) json["usage"] = Json();
  return json;
}

Json ChatStream::logprobs_json_of(const std::vector<TokenLogprobs>& tokens) {
  return logprobs_of(tokens, heard().tokenizer.get());
}

void ChatStream::send_delta(size_t i, Json delta) {
  Json choice = Json::object();
  choice["index"] = i;
  choice["delta"] = std::move(delta);
  choice["logprobs"] = logprobs_json_of(take_logprobs(i));
  choice["finish_reason"] = Json();
  Json json = chunk();
  json["choices"].push_back(std::move(choice));
  send(json);
}

void ChatStream::send_call(size_t i, Json call) {
  Json delta = Json::object();
  delta["tool_calls"] = Json::array();
  delta["tool_calls"].push_back(std::move(call));
  send_delta(i, std::move(delta));
}

void ChatStream::prefill(size_t n_done, size_t n_total) {
  if (!n_reused_) n_reused_ = n_done;
  if (!options_.return_progress) return;
  Json progress = Json::object();
  progress["total"] = n_total;
  progress["cache"] = *n_reused_;
  progress["processed"] = n_done;
  progress["time_ms"] = (site_.clock.steady_ns() - begin_ns_) / 1'000'000;
  Json json = chunk();
  json["prompt_progress"] = std::move(progress);
  send(json);
}

void ChatStream::opened() {
  for (size_t i = 0; i < options_.n; ++i) {
    Json delta = Json::object();
    delta["role"] = "assistant";
    delta["content"] = "";
    send_delta(i, std::move(delta));
  }
}

void ChatStream::said(size_t i, std::string_view text) {
  Json delta = Json::object();
  delta["content"] = std::string(text);
  send_delta(i, std::move(delta));
}

void ChatStream::thought(size_t i, std::string_view text) {
  Json delta = Json::object();
  delta["reasoning_content"] = std::string(text);
  send_delta(i, std::move(delta));
}

void ChatStream::called(size_t i, size_t call, std::string_view id, std::string_view name) {
  Json function = Json::object();
  function["name"] = std::string(name);
  function["arguments"] = "";
  Json json = Json::object();
  json["index"] = call;
  json["id"] = std::string(id);
  json["type"] = "function";
  json["function"] = std::move(function);
  send_call(i, std::move(json));
}

void ChatStream::call_part(size_t i, size_t call, std::string_view part) {
  Json function = Json::object();
  function["arguments"] = std::string(part);
  Json json = Json::object();
  json["index"] = call;
  json["function"] = std::move(function);
  send_call(i, std::move(json));
}

void ChatStream::answered(size_t i, const Answer& answer) {
  Json choice = Json::object();
  choice["index"] = i;
  choice["delta"] = Json::object();
  choice["logprobs"] = logprobs_json_of(take_last_logprobs(i, answer));
  choice["finish_reason"] = openai_finish_reason(answer);
  Json json = chunk();
  json["choices"].push_back(std::move(choice));
  // In the chunk that ends the answer, as llama.cpp has them.
  json["timings"] = llama_timings(answer);
  json["ibid"] = ibid_details(answer);
  send(json);
}

void ChatStream::finished() {
  if (options_.include_usage) {
    Json json = chunk();
    add_costs(json, heard());
    send(json);
  }
  send_bytes("data: [DONE]\n\n");
}

void ChatStream::failed(const Fault& fault) { send(fault_json(fault, ErrorStyle::kOpenAi)); }

}  // namespace ibid::serve
