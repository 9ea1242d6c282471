// /v1/conversations (OpenAI's Conversations API): lists of items that responses are added to (responses.h).
//
// A conversation that a response is being given to is changed by nobody else meanwhile (409). Deleting it lets the
// response end, and forgets it.
#pragma once

#include <span>
#include <string>

#include "server/protocol/field.h"
#include "server/protocol/site.h"

namespace ibid::serve {

struct ConversationCall {
  std::string cache_namespace = {};
  Json items = Json::array();  // as they were sent
  Json metadata = Json::object();
};

std::span<const Field<ConversationCall>> conversation_fields();
std::span<const Field<ConversationCall>> conversation_metadata_fields();
std::span<const Field<ConversationCall>> conversation_items_fields();

// The fault of an error of the store, which says less than the log does. The second is for an error of a conversation:
// 404, 409 while a response is being given to it, 503 if there is no room for it.
Fault fault_of_store(const Site& site, const Status& status);
Fault fault_of_conversation(const Site& site, const Status& status);

void post_conversation(const Site& site, const http::ExchangePtr& exchange);
void get_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                      const std::string& id);
void update_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& id);
void delete_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                         const std::string& id);

void get_conversation_items(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                            const std::string& id);
void post_conversation_items(const Site& site, const http::ExchangePtr& exchange, const std::string& id);
void get_conversation_item(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                           const std::string& id, const std::string& item_id);
void delete_conversation_item(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                              const std::string& id, const std::string& item_id);

}  // namespace ibid::serve
