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
#include "server/protocol/response_store.h"
#include "server/protocol/session_store.h"
#include "server/protocol/site.h"

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

// A response on its way: what the object says of the request, and where it is kept.
struct ResponseContext {
  Site site;
  std::string id;
  std::string cache_namespace;
  ResponseCall call;                  // without its request's messages, which the service has
  ResponseStore::LinkPtr previous;    // what it goes on from; nullptr: nothing, or
  Json in_front = Json::array();      // items of a conversation, which no link has
  std::shared_ptr<SessionHold> conversation;  // which the response belongs to; nullptr: none
  int64_t created = 0;
  Json items = Json::array();         // of a stream, as they were sent
};

// Reads the request, and what it goes on from. Throws Fault.
void read_response(const Site& site, const http::Request& source, ResponseContext& context);

Fault no_such_response(std::string param);
// All items up to the output of a response that was found. Null: its conversation has them no more.
Json items_of(const Site& site, const std::string& cache_namespace, const ResponseStore::Found& found);

}  // namespace ibid::serve
