#include "server/protocol/sessions.h"

#include <memory>
#include <utility>

#include "server/protocol/call.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/openai_chat.h"
#include "server/protocol/session_store.h"
#include "server/protocol/session_turn.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr double kMostSessionMessages = static_cast<double>(kMaxMessages);

void keep_content(const Json& value, SessionCall& call) {
  call.content = value.get<std::string>();
}

constexpr Field<SessionCall> kSessionFields[] = {
    {{"messages", Shape::kList, "what was said so far, as in chat completions", 0, kMostSessionMessages,
      Standing::kRead, R"({"type":"array","items":{"type":"object","required":["role","content"],"properties":)"
                       R"({"role":{"enum":["system","user","assistant"]},"content":{"type":"string"}}}})"},
     [](const Json& value, SessionCall& call) { call.messages = value; }},
    {{"settings", Shape::kObject, "of a session that was saved: its other fields; those beside them count more"},
     [](const Json& value, SessionCall& call) { call.settings = value; }},
};
constexpr Field<SessionCall> kSessionMessageFields[] = {
    {{"content", Shape::kText, "the user's message", 0, 1 << 30}, keep_content},
    {{"message", Shape::kObject, "or any message, as in chat completions: the result of a tool", 0, 0,
      Standing::kRead, R"({"$ref":"#/components/schemas/chat_message"})"},
     [](const Json& value, SessionCall& call) { call.message = value; }},
};
constexpr Field<SessionCall> kSessionEditFields[] = {
    {{"message", Shape::kInteger, "the number of a user's message, from 0 on", 0, kMostSessionMessages,
      Standing::kRead, "", true},
     [](const Json& value, SessionCall& call) { call.message = value; }},
    {{"content", Shape::kText, "what it is to be", 0, 1 << 30, Standing::kRead, "", true}, keep_content},
};
void keep_number(const Json& value, SessionCall& call) {
  call.n_messages = static_cast<size_t>(integer_of(value));
}
constexpr Field<SessionCall> kSessionRewindFields[] = {
    user_field<SessionCall>(),
    {{"n_messages", Shape::kInteger, "so many messages stay, the first ones", 0, kMostSessionMessages,
      Standing::kRead, "", true}, keep_number},
};
constexpr Field<SessionCall> kSessionForkFields[] = {
    user_field<SessionCall>(),
    {{"n_messages", Shape::kInteger, "so many messages it gets, the first ones; absent: all", 0, kMostSessionMessages},
     keep_number},
};

Json session_json(const SessionState& session) {
  Json json = Json::object();
  json["id"] = session.id;
  json["object"] = "session";
  json["created"] = session.created;
  json["settings"] = session.settings;
  json["messages"] = session.messages;
  return json;
}

// The body, the namespace that it belongs to, and its fields of sessions. An empty body is an object without fields.
void read_session_body(const Site& site, const http::Request& request, std::span<const Field<SessionCall>> fields,
                       Json& body, SessionCall& call) {
  body = request.body.empty() ? Json::object() : parse_body(request.body);
  call.cache_namespace = read_namespace(site, request, body);
  read_fields(body, fields, call);
}

// Leaves the first messages, as many as the call says; all, where it does not.
void keep_first(const SessionCall& call, Json& messages) {
  const size_t n_kept = call.n_messages.value_or(messages.size());
  if (n_kept > messages.size()) throw Fault{.message = "is more than there are", .param = "n_messages"};
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(n_kept), messages.end());
}

// A change of a taken session that wants an answer: what its messages are to be. They are checked with the rest.
using Change = void (*)(const SessionCall& call, Json& messages);

void append_message(const SessionCall& call, Json& messages) {
  if (call.message.is_object()) {
    messages.push_back(call.message);
  } else if (call.content) {
    messages.push_back(make_message(Role::kUser, *call.content));
  }
  if (!messages.empty()) return;
  throw Fault{.message = "is missing, and the session has no message to answer", .param = "content",
               .code = "missing_required_parameter"};
}

void replace_message(const SessionCall& call, Json& messages) {
  const auto at = static_cast<size_t>(integer_of(call.message));
  if (at >= messages.size() || !is_from(messages[at], Role::kUser)) {
    throw Fault{.message = "is no message of the user", .param = "message"};
  }
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(at), messages.end());
  messages.push_back(make_message(Role::kUser, *call.content));
}

void drop_answer(const SessionCall&, Json& messages) {
  if (messages.empty() || !is_from(messages.back(), Role::kAssistant)) {
    throw Fault{.message = "there is no answer to give again", .param = "id"};
  }
  messages.erase(messages.size() - 1);
}

// The request of chat completions that the change of a session is.
ChatCall read_session_chat(const Site& site, const http::Request& source, Json body, const SessionState& session) {
  Json all = session.settings;
  body.erase("message");
  body.erase("content");
  for (auto& [name, value] : body.get_ref<Json::object_t&>()) all[name] = std::move(value);
  all["messages"] = session.messages;
  return read_chat_body(site, source, all);
}

void answer_in_session(const Site& site, const http::ExchangePtr& exchange, const std::string& id,
                       std::span<const Field<SessionCall>> fields, Change change) {
  const http::Request& source = exchange->request();
  Json body;
  SessionCall call;
  read_session_body(site, source, fields, body, call);
  SessionState session;
  std::stop_token removed;
  throw_if(site.sessions->take(call.cache_namespace, id, session, removed));
  ChatCall chat;
  try {
    change(call, session.messages);
    chat = read_session_chat(site, source, std::move(body), session);
  } catch (...) {
    site.sessions->release(call.cache_namespace, id);
    throw;
  }
  auto inner = make_chat_listener(site, exchange, chat);
  auto turn = std::make_shared<SessionTurn>(site.sessions, call.cache_namespace, id, chat.request.messages,
                                            std::move(inner));
  const std::stop_token stop = turn->stop_with(exchange->gone(), removed);
  site.backend->start(std::move(chat.request), std::move(turn), stop);
}

}  // namespace

std::span<const Field<SessionCall>> session_fields() { return kSessionFields; }
std::span<const Field<SessionCall>> session_message_fields() { return kSessionMessageFields; }
std::span<const Field<SessionCall>> session_edit_fields() { return kSessionEditFields; }
std::span<const Field<SessionCall>> session_rewind_fields() { return kSessionRewindFields; }
std::span<const Field<SessionCall>> session_fork_fields() { return kSessionForkFields; }

void post_session(const Site& site, const http::ExchangePtr& exchange) {
  Json body;
  SessionCall call;
  read_session_body(site, exchange->request(), session_fields(), body, call);
  SessionState session{.id = site.new_id("session_"), .created = site.now_s()};
  // A document that was saved has its settings in an object of their own.
  for (const char* name : {"messages", "id", "object", "created", "settings"}) body.erase(name);
  if (call.settings.is_object()) session.settings = call.settings;
  for (auto& [name, value] : body.get_ref<Json::object_t&>()) session.settings[name] = std::move(value);
  session.settings.erase("user");  // every request says whose it is
  if (call.messages.is_array() && !call.messages.empty()) {
    read_at("messages", [&] { read_chat_messages(call.messages, session.messages); });
  }
  // What does not fit an answer is refused now, and not with the first question.
  Json probe = session.settings;
  probe["messages"] = Json::array({make_message(Role::kUser, "x")});
  (void)read_chat_body(site, exchange->request(), probe);
  throw_if(site.sessions->create(call.cache_namespace, session));
  respond_json(*exchange, session_json(session));
}

void get_sessions(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace) {
  Json list = Json::array();
  for (const SessionState& session : site.sessions->list(cache_namespace)) {
    Json json = Json::object();
    json["id"] = session.id;
    json["object"] = "session";
    json["created"] = session.created;
    list.push_back(std::move(json));
  }
  Json json = Json::object();
  json["object"] = "list";
  json["data"] = std::move(list);
  respond_json(*exchange, json);
}

void get_session(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                 const std::string& id) {
  SessionState session;
  throw_if(site.sessions->find(cache_namespace, id, session));
  respond_json(*exchange, session_json(session));
}

void delete_session(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                    const std::string& id) {
  throw_if(site.sessions->remove(cache_namespace, id));
  Json json = Json::object();
  json["id"] = id;
  json["object"] = "session";
  json["deleted"] = true;
  respond_json(*exchange, json);
}

void post_session_message(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  answer_in_session(site, exchange, id, session_message_fields(), append_message);
}

void post_session_edit(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  answer_in_session(site, exchange, id, session_edit_fields(), replace_message);
}

void post_session_regenerate(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  answer_in_session(site, exchange, id, {}, drop_answer);
}

void post_session_rewind(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  Json body;
  SessionCall call;
  read_session_body(site, exchange->request(), session_rewind_fields(), body, call);
  const std::string& cache_namespace = call.cache_namespace;
  SessionState session;
  std::stop_token removed;
  throw_if(site.sessions->take(cache_namespace, id, session, removed));
  SessionHold hold(site.sessions, cache_namespace, id);
  keep_first(call, session.messages);
  (void)hold.commit(session.messages);  // what is smaller fits
  respond_json(*exchange, session_json(session));
}

void post_session_fork(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  Json body;
  SessionCall call;
  SessionState session;
  read_session_body(site, exchange->request(), session_fork_fields(), body, call);
  throw_if(site.sessions->find(call.cache_namespace, id, session));
  keep_first(call, session.messages);
  session.id = site.new_id("session_");
  session.created = site.now_s();
  throw_if(site.sessions->create(call.cache_namespace, session));
  respond_json(*exchange, session_json(session));
}

}  // namespace ibid::serve
