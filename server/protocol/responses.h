// /v1/responses (OpenAI's Responses API): answers that can be gone on with by their id, in items.
//
// previous_response_id is any response that is stored: each is a branch. A stored conversation (openai_conversations.h)
// gets the items of every response to it. As with OpenAI, instructions are this request's alone. Only functions are
// tools; what a server would do by itself (search, code, files) is refused.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "server/protocol/call.h"
#include "server/protocol/reply.h"
#include "server/protocol/site.h"
#include "server/store/conversation_store.h"

namespace ibid::serve {

struct ResponseCall {
  AnswerRequest request;
  bool stream = false;
  bool store = true;
  std::string previous_id = {};
  std::string conversation_id = {};
  Json instructions = Json();
  Json input = Json();              // as it was sent; then as items that are kept
  bool wants_logprobs = false;
  Json echo = Json::object();       // fields that the response repeats as they were sent
};

std::span<const Field<ResponseCall>> response_fields();

// A response on its way: what the object says of the request, and where it is kept.
struct ResponseContext {
  Site site;
  std::string id;
  std::string cache_namespace;
  ResponseCall call;                  // without its request's messages, which the service has
  std::string previous_id = {};       // the response that it goes on from, where it is kept as one that does
  Json in_front = Json::array();      // items before it: of the responses, or of the conversation that it goes on from
  std::shared_ptr<TakenConversation> conversation;  // which the response belongs to; nullptr: none
  int64_t created = 0;
  Json items = Json::array();         // of a stream, as they were sent
};

// The object. status: "in_progress", "completed", "incomplete", "failed".
Json response_json(const ResponseContext& context, const std::string& model, const char* status, Json output);
// Whether the answer was ended by its length: its response is "incomplete".
bool is_cut(const Answer& answer);
// The same of a whole answer, with its usage; kept where the client wants that. It may wait for the disk.
Json finished_response(const ResponseContext& context, const Heard& heard);
// Log-probabilities of tokens as events and output_text have them; a list, empty where there are none.
Json output_logprobs(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer);

void post_responses(const Site& site, const http::ExchangePtr& exchange);
void get_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                  const std::string& id);
void delete_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id);
void get_input_items(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id);
void cancel_response(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                     const std::string& id);

}  // namespace ibid::serve
