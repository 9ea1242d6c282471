#include "server/protocol/openai_conversations.h"

#include <memory>
#include <utility>

#include "server/protocol/call.h"
#include "server/protocol/responses_items.h"
#include "server/protocol/session_store.h"

namespace ibid::serve {

namespace {

constexpr double kMostItems = 20;  // of one request, as with OpenAI
#define IBID_ITEMS                                                                                  \
  R"("maxItems":20,"items":{"type":"object","required":["role","content"],"properties":{"role":)"    \
  R"({"enum":["system","developer","user","assistant"]},"content":{"type":"string"}}}})"
constexpr std::string_view kItemsSchema = R"({"type":"array",)" IBID_ITEMS;
constexpr std::string_view kAddedSchema = R"({"type":"array","minItems":1,)" IBID_ITEMS;
#undef IBID_ITEMS

void keep_items(const Json& value, ConversationCall& call) {
  Json messages = Json::array();
  call.items = value;
  read_input(value, messages);
}
void keep_metadata(const Json& value, ConversationCall& call) { call.metadata = value; }

constexpr Field<ConversationCall> kConversationFields[] = {
    user_field<ConversationCall>(),
    {{"items", Shape::kList, "what it begins with, as the input of a response", 0, kMostItems, Standing::kRead,
      kItemsSchema}, keep_items},
    {{"metadata", Shape::kObject, "comes back with the conversation"}, keep_metadata},
};
constexpr Field<ConversationCall> kMetadataFields[] = {
    user_field<ConversationCall>(),
    {{"metadata", Shape::kObject, "in place of what it had", 0, 0, Standing::kRead, "", true}, keep_metadata},
};
constexpr Field<ConversationCall> kItemsFields[] = {
    user_field<ConversationCall>(),
    {{"items", Shape::kList, "what is added to its end, as the input of a response", 1, kMostItems, Standing::kRead,
      kAddedSchema, true}, keep_items},
};

Json conversation_json(const SessionState& conversation) {
  Json json = Json::object();
  json["id"] = conversation.id;
  json["object"] = "conversation";
  json["created_at"] = conversation.created;
  json["metadata"] = conversation.settings;
  return json;
}

// An empty body is an object without fields.
ConversationCall read_call(const Site& site, const http::Request& request,
                           std::span<const Field<ConversationCall>> fields) {
  ConversationCall call;
  const Json body = request.body.empty() ? Json::object() : parse_body(request.body);
  call.cache_namespace = read_namespace(site, request, body);
  read_fields(body, fields, call);
  return call;
}

// Takes the conversation until the hold is committed or goes.
std::unique_ptr<SessionHold> take(const Site& site, const std::string& cache_namespace, const std::string& id,
                                  SessionState& conversation) {
  std::stop_token removed;
  throw_if(site.conversations->take(cache_namespace, id, conversation, removed));
  return std::make_unique<SessionHold>(site.conversations, cache_namespace, id);
}

// size(): there is none.
size_t place_of(const Json& items, const std::string& id) {
  size_t at = 0;
  while (at < items.size() && items[at]["id"] != id) ++at;
  return at;
}

Fault no_such_item() {
  return {.status = 404, .message = "there is no item of that id", .param = "item_id", .code = "not_found"};
}

}  // namespace

std::span<const Field<ConversationCall>> conversation_fields() { return kConversationFields; }
std::span<const Field<ConversationCall>> conversation_metadata_fields() { return kMetadataFields; }
std::span<const Field<ConversationCall>> conversation_items_fields() { return kItemsFields; }

void post_conversation(const Site& site, const http::ExchangePtr& exchange) {
  ConversationCall call = read_call(site, exchange->request(), conversation_fields());
  SessionState conversation{.id = site.new_id("conv_"), .created = site.now_s(), .settings = std::move(call.metadata),
                            .messages = stored_items(call.items, site.new_id)};
  throw_if(site.conversations->create(call.cache_namespace, conversation));
  respond_json(*exchange, conversation_json(conversation));
}

void get_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                      const std::string& id) {
  SessionState conversation;
  throw_if(site.conversations->find(cache_namespace, id, conversation));
  respond_json(*exchange, conversation_json(conversation));
}

void update_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  const ConversationCall call = read_call(site, exchange->request(), conversation_metadata_fields());
  throw_if(site.conversations->set_settings(call.cache_namespace, id, call.metadata));
  get_conversation(site, exchange, call.cache_namespace, id);
}

void delete_conversation(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                         const std::string& id) {
  throw_if(site.conversations->remove(cache_namespace, id));
  Json json = Json::object();
  json["id"] = id;
  json["object"] = "conversation.deleted";
  json["deleted"] = true;
  respond_json(*exchange, json);
}

void get_conversation_items(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                            const std::string& id) {
  SessionState conversation;
  throw_if(site.conversations->find(cache_namespace, id, conversation));
  respond_items(*exchange, std::move(conversation.messages));
}

void post_conversation_items(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  const ConversationCall call = read_call(site, exchange->request(), conversation_items_fields());
  SessionState conversation;
  const auto hold = take(site, call.cache_namespace, id, conversation);
  Json added = stored_items(call.items, site.new_id);
  for (const Json& item : added) conversation.messages.push_back(item);
  throw_if(hold->commit(std::move(conversation.messages)));
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
  SessionState conversation;
  throw_if(site.conversations->find(cache_namespace, id, conversation));
  const size_t at = place_of(conversation.messages, item_id);
  if (at == conversation.messages.size()) throw no_such_item();
  respond_json(*exchange, conversation.messages[at]);
}

void delete_conversation_item(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                              const std::string& id, const std::string& item_id) {
  SessionState conversation;
  const auto hold = take(site, cache_namespace, id, conversation);
  const size_t at = place_of(conversation.messages, item_id);
  if (at == conversation.messages.size()) throw no_such_item();
  conversation.messages.erase(at);
  (void)hold->commit(conversation.messages);  // what is smaller fits
  respond_json(*exchange, conversation_json(conversation));
}

}  // namespace ibid::serve
