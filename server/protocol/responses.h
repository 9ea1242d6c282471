// /v1/responses (OpenAI's Responses API): answers that can be gone on with by their id, in items.
//
// previous_response_id is any response that is stored: each is a branch. A stored conversation (openai_conversations.h)
// gets the items of every response to it. As with OpenAI, instructions are this request's alone. Only functions are
// tools; what a server would do by itself (search, code, files) is refused.
//
// This header is for responses.cc and responses_input.cc.
#pragma once

#include <memory>
#include <string>

#include "server/protocol/call.h"
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
  Json input = Json();  // as it was sent; then as items that are kept
  bool wants_logprobs = false;
  Json echo = Json::object();  // fields that the response repeats as they were sent
};

// A response on its way: what the object says of the request, and where it is kept.
struct ResponseContext {
  Site site;
  std::string id;
  std::string cache_namespace;
  ResponseCall call;              // without its request's messages, which the service has
  std::string previous_id = {};   // the response that it goes on from, where its items are kept with that
  Json in_front = Json::array();  // the items before it: of that response, or of the conversation
  std::shared_ptr<TakenConversation> conversation = {};  // that the response belongs to; nullptr: none
  int64_t created = 0;
  Json items = Json::array();  // of a stream, as they were sent
};

// Reads the request, and what it goes on from. Throws Fault.
void read_response(const Site& site, const http::Request& source, ResponseContext& context);

// A response that is kept, and all items up to its output. Faults: the store's; 404 for `param` where there is no such
// response, or its conversation lacks the items.
StoredResponse find_response(const Site& site, const std::string& cache_namespace, const std::string& id,
                             const char* param);
Json items_of(const Site& site, const std::string& cache_namespace, const StoredResponse& response, const char* param);
// The fault that an error of the store is for a request that names a response.
Fault fault_of_response(const Site& site, const Status& status, const char* param);

}  // namespace ibid::serve
