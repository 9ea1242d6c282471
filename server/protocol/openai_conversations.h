// /v1/conversations (OpenAI's Conversations API): lists of items, to which responses are appended (responses.h).
//
// While a response of a conversation is generated, other changes of the conversation fail with 409. It can be deleted;
// the response is then completed, but not stored.
#pragma once

#include <span>
#include <string>

#include "server/protocol/field.h"
#include "server/protocol/site.h"

namespace ibid::serve {

struct ConversationCall {
  std::string cache_namespace = {};
  Json items = Json::array();  // items as the client sent them
  Json metadata = Json::object();
};

std::span<const Field<ConversationCall>> conversation_fields();
std::span<const Field<ConversationCall>> conversation_metadata_fields();
std::span<const Field<ConversationCall>> conversation_items_fields();

// Convert an error of the store to a fault, whose message is shorter than the log's. fault_of_conversation() gives 404:
// no such conversation; 409: a response of the conversation is being generated; 503: it does not fit into the store.
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
