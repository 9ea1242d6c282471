#include "server/protocol/openai_conversations.h"

#include <string>
#include <utility>

#include "server/protocol/call.h"
#include "server/protocol/responses_items.h"
#include "server/store/conversation_store.h"

namespace ibid::serve {

namespace {

constexpr double kMostItems = 20;  // maximum items per request, as with OpenAI
#define IBID_ITEMS                                                                                \
  R"("maxItems":20,"items":{"type":"object","required":["role","content"],"properties":{"role":)" \
  R"({"enum":["system","developer","user","assistant"]},"content":{"type":"string"}}}})"
constexpr std::string_view kItemsSchema = R"({"type":"array",)" IBID_ITEMS;
constexpr std::string_view kAddedSchema = R"({"type":"array","minItems":1,)" IBID_ITEMS;
#undef IBID_ITEMS

void keep_items(const Json& value, ConversationCall& call) {
  Json messages = Json::array();
  call.items = value;
  IgnoredParts ignored;  // not reported: items without effect are stored too
  read_input(value, messages, ignored);
}
void keep_metadata(const Json& value, ConversationCall& call) { call.metadata = value; }

constexpr Field<ConversationCall> kConversationFields[] = {
    user_field<ConversationCall>(),
    {{"items", Shape::kList, "the first items of the conversation, in the form of a response's input", 0, kMostItems,
      Standing::kRead, kItemsSchema},
     keep_items},
    {{"metadata", Shape::kObject, "returned with the conversation"}, keep_metadata},
};
constexpr Field<ConversationCall> kMetadataFields[] = {
    user_field<ConversationCall>(),
    {{"metadata", Shape::kObject, "replaces the previous metadata", 0, 0, Standing::kRead, "", true}, keep_metadata},
};
constexpr Field<ConversationCall> kItemsFields[] = {
    user_field<ConversationCall>(),
    {{"items", Shape::kList, "the items to append, in the form of a response's input", 1, kMostItems, Standing::kRead,
      kAddedSchema, true},
     keep_items},
};

Json conversation_json(const StoredConversation& conversation) {
  Json json = Json::object();
  json["id"] = conversation.id;
  json["object"] = "conversation";
  json["created_at"] = conversation.created;
  json["metadata"] = conversation.metadata;
  return json;
}

// Reads a request; an empty body counts as an empty object.
ConversationCall read_call(const Site& site, const http::Request& request,
                           std::span<const Field<ConversationCall>> fields) {
  ConversationCall call;
  const Json body = request.body.empty() ? Json::object() : parse_body(request.body);
  call.cache_namespace = read_namespace(site, request, body);
  read_fields(body, fields, call);
  return call;
}

// Returns the value of a result of the store. Fault if it is an error.
template <typename Value>
Value need(const Site& site, Result<Value> result) {
  if (!result.ok()) throw fault_of_conversation(site, result.status());
  return *std::move(result);
}
void need(const Site& site, const Status& status) {
  if (!status.ok()) throw fault_of_conversation(site, status);
}

// Returns the index of the item with the id; size() if there is no such item.
size_t place_of(const Json& items, const std::string& id) {
  size_t at = 0;
  while (at < items.size() && items[at]["id"] != id) ++at;
  return at;
}

Fault no_such_item() {
  return {.status = 404, .message = "no item has this id", .param = "item_id", .code = "not_found"};
}

}  // namespace

std::span<const Field<ConversationCall>> conversation_fields() { return kConversationFields; }
std::span<const Field<ConversationCall>> conversation_metadata_fields() { return kMetadataFields; }
std::span<const Field<ConversationCall>> conversation_items_fields() { return kItemsFields; }

Fault fault_of_store(const Site& site, const Status& status) {
  site.store->say(status);
  if (status.code() == ErrorCode::kCorrupt) {
    return {.status = 500, .message = "the stored data is damaged", .code = "server_error"};
  }
  return {.status = 503, .message = "the store is not available", .code = "service_unavailable"};
}

Fault fault_of_conversation(const Site& site, const Status& status) {
  switch (status.code()) {
    case ErrorCode::kNotFound:
      return {.status = 404, .message = "no conversation has this id", .param = "id", .code = "not_found"};
    case ErrorCode::kBusy:
      return {.status = 409,
              .message = "another request is using this conversation",
              .param = "id",
              .code = "conversation_busy"};
    case ErrorCode::kLimitExceeded:
      return {.status = 503,
              .message = "conversation storage is full (" + std::to_string(site.store->budget_bytes()) +
                         " bytes): delete conversations",
              .code = "conversations_full"};
    default: return fault_of_store(site, status);
  }
}

void post_conversation(const Site& site, const http::ExchangePtr& exchange) {
  ConversationCall call = read_call(site, exchange->request(), conversation_fields());
  const StoredConversation conversation{.id = site.new_id("conv_"),
                                        .created = site.now_s(),
                                        .metadata = std::move(call.metadata),
                                        .items = stored_items(call.items, site.new_id)};
  need(site, site.store->create_conversation(call.cache_namespace, conversation));
  respond_json(*exchange, conversation_json(conversation));
}

void get_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                      const std::string& id) {
  respond_json(*exchange, conversation_json(need(site, site.store->find_conversation(cache_namespace, id))));
}

void update_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  const ConversationCall call = read_call(site, exchange->request(), conversation_metadata_fields());
  need(site, site.store->set_metadata(call.cache_namespace, id, call.metadata));
  get_conversation(site, exchange, call.cache_namespace, id);
}

void delete_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                         const std::string& id) {
  need(site, site.store->remove_conversation(cache_namespace, id));
  respond_json(*exchange, {{"id", id}, {"object", "conversation.deleted"}, {"deleted", true}});
}

void get_conversation_items(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                            const std::string& id) {
  respond_items(*exchange, need(site, site.store->find_conversation(cache_namespace, id)).items);
}

void post_conversation_items(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  const ConversationCall call = read_call(site, exchange->request(), conversation_items_fields());
  const auto taken = need(site, site.store->take_conversation(call.cache_namespace, id));
  Json added = stored_items(call.items, site.new_id);
  Json& items = taken->conversation().items;
  items.insert(items.end(), added.begin(), added.end());
  need(site, taken->commit(items));
  Json json = Json::object();
  json["object"] = "list";
  json["first_id"] = added[0]["id"];
  json["last_id"] = added[added.size() - 1]["id"];
  json["has_more"] = false;
  json["data"] = std::move(added);
  respond_json(*exchange, json);
}

void get_conversation_item(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                           const std::string& id, const std::string& item_id) {
  const Json items = need(site, site.store->find_conversation(cache_namespace, id)).items;
  const size_t at = place_of(items, item_id);
  if (at == items.size()) throw no_such_item();
  respond_json(*exchange, items[at]);
}

void delete_conversation_item(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                              const std::string& id, const std::string& item_id) {
  const auto taken = need(site, site.store->take_conversation(cache_namespace, id));
  StoredConversation& conversation = taken->conversation();
  const size_t at = place_of(conversation.items, item_id);
  if (at == conversation.items.size()) throw no_such_item();
  conversation.items.erase(at);
  need(site, taken->commit(conversation.items));
  respond_json(*exchange, conversation_json(conversation));
}

}  // namespace ibid::serve
