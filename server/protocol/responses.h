// /v1/responses (OpenAI's Responses API): answers as items, which a client can continue by their id.
//
// previous_response_id may name any stored response, so several responses may continue the same one. A stored
// conversation (openai_conversations.h) receives the items of every response in it. As with OpenAI, instructions apply
// only to their own request. Tools must be functions; tools that the server would have to run itself (search, code,
// files) are refused. Only for responses.cc and responses_input.cc.
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
  Json input = Json();  // input as the client sent it; later converted to items that can be stored
  bool wants_logprobs = false;
  bool progress = false;       // return_progress
  bool timings = false;        // timings_per_token
  Json echo = Json::object();  // fields that the response repeats, as the client sent them
};

// A response in progress: the data of the request that its object repeats, and where it is stored.
struct ResponseContext {
  Site site;
  std::string id;
  std::string cache_namespace;
  ResponseCall call;              // the call without its messages, which were passed to the service
  std::string previous_id = {};   // id of the continued response; empty: nothing is continued, or a conversation
  Json in_front = Json::array();  // items of the previous response or the conversation, which precede this input
  bool continues = false;         // the output continues the last message of the input
  std::shared_ptr<LockedConversation> conversation = {};  // the conversation of the response; nullptr: none
  int64_t created = 0;
  Json items = Json::array();  // output items that a stream has already sent
};

// Reads the request and the items that precede it. Throws Fault.
void read_response(const Site& site, const http::Request& source, ResponseContext& context);

// Find a stored response, and list all items up to and including its output. Faults: those of the store; 404 for
// `param` if there is no such response, or if its conversation no longer has the items.
StoredResponse find_response(const Site& site, const std::string& cache_namespace, const std::string& id,
                             const char* param);
Json items_of(const Site& site, const std::string& cache_namespace, const StoredResponse& response, const char* param);
// Converts an error of the store to a fault. `id`: of the response; `param`: the field of the request that names a
// response.
Fault fault_of_response(const Site& site, const Status& status, const std::string& id, const char* param);

}  // namespace ibid::serve
