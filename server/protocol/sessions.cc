#include "server/protocol/sessions.h"

#include <memory>
#include <utility>

#include "server/protocol/chat_messages.h"
#include "server/protocol/openai_chat.h"
#include "server/protocol/request_namespace.h"
#include "server/protocol/session_store.h"
#include "server/protocol/session_turn.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr double kMostSessionMessages = static_cast<double>(kMaxMessages);

MaybeFault keep_content(const Json& value, SessionCall& call) {
  call.content = value.get<std::string>();
  return {};
}

constexpr Field<SessionCall> kSessionFields[] = {
    {{"messages", Shape::kList, "what was said so far, as in chat completions", 0, kMostSessionMessages,
      Standing::kRead, R"({"type":"array","items":{"type":"object","required":["role","content"],"properties":)"
                       R"({"role":{"enum":["system","user","assistant"]},"content":{"type":"string"}}}})"},
     [](const Json& value, SessionCall& call) { return call.messages = value, MaybeFault(); }},
    {{"settings", Shape::kObject, "of a session that was saved: its other fields; those beside them count more"},
     [](const Json& value, SessionCall& call) { return call.settings = value, MaybeFault(); }},
};
constexpr Field<SessionCall> kSessionMessageFields[] = {
    {{"content", Shape::kText, "the user's message", 0, 1 << 30}, keep_content},
    {{"message", Shape::kObject, "or any message, as in chat completions: the result of a tool", 0, 0,
      Standing::kRead, R"({"$ref":"#/components/schemas/chat_message"})"},
     [](const Json& value, SessionCall& call) { return call.message = value, MaybeFault(); }},
};
constexpr Field<SessionCall> kSessionEditFields[] = {
    {{"message", Shape::kInteger, "the number of a user's message, from 0 on", 0, kMostSessionMessages,
      Standing::kRead, "", true},
     [](const Json& value, SessionCall& call) { return call.message = value, MaybeFault(); }},
    {{"content", Shape::kText, "what it is to be", 0, 1 << 30, Standing::kRead, "", true}, keep_content},
};
MaybeFault keep_number(const Json& value, SessionCall& call) {
  call.n_messages = static_cast<size_t>(integer_of(value));
  return {};
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

void refuse_session(http::Exchange& exchange, const Fault& fault) {
  respond_fault(exchange, fault, ErrorStyle::kOpenAi);
}

// The body, the namespace that it belongs to, and its fields of sessions. An empty body is an object without fields.
MaybeFault read_session_body(const Site& site, const http::Request& request,
                             std::span<const Field<SessionCall>> fields, Json& body, SessionCall& call) {
  body = Json::object();
  if (!request.body.empty()) {
    if (MaybeFault fault = parse_body(request.body, body)) return fault;
  }
  if (MaybeFault fault = read_namespace(site, request, body, call.cache_namespace)) return fault;
  return read_fields(body, fields, call);
}

// Leaves the first messages, as many as the call says; all, where it does not.
MaybeFault keep_first(const SessionCall& call, Json& messages) {
  const size_t n_kept = call.n_messages.value_or(messages.size());
  if (n_kept > messages.size()) return Fault{.message = "is more than there are", .param = "n_messages"};
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(n_kept), messages.end());
  return {};
}

// A change of a taken session that wants an answer: what its messages are to be. They are checked with the rest.
using Change = MaybeFault (*)(const SessionCall& call, Json& messages);

MaybeFault append_message(const SessionCall& call, Json& messages) {
  if (call.message.is_object()) {
    messages.push_back(call.message);
  } else if (call.content) {
    messages.push_back(make_message(Role::kUser, *call.content));
  }
  if (!messages.empty()) return {};
  return Fault{.message = "is missing, and the session has no message to answer", .param = "content",
               .code = "missing_required_parameter"};
}

MaybeFault replace_message(const SessionCall& call, Json& messages) {
  const auto at = static_cast<size_t>(integer_of(call.message));
  if (at >= messages.size() || !is_from(messages[at], Role::kUser)) {
    return Fault{.message = "is no message of the user", .param = "message"};
  }
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(at), messages.end());
  messages.push_back(make_message(Role::kUser, *call.content));
  return {};
}

MaybeFault drop_answer(const SessionCall&, Json& messages) {
  if (messages.empty() || !is_from(messages.back(), Role::kAssistant)) {
    return Fault{.message = "there is no answer to give again", .param = "id"};
  }
  messages.erase(messages.size() - 1);
  return {};
}

// The request of chat completions that the change of a session is.
MaybeFault read_session_chat(const Site& site, const http::Request& source, Json body, const SessionState& session,
                             ChatCall& chat) {
  Json all = session.settings;
  body.erase("message");
  body.erase("content");
  for (auto& [name, value] : body.get_ref<Json::object_t&>()) all[name] = std::move(value);
  all["messages"] = session.messages;
  return read_chat_body(site, source, all, chat);
}

void answer_in_session(const Site& site, const http::ExchangePtr& exchange, const std::string& id,
                       std::span<const Field<SessionCall>> fields, Change change) {
  const http::Request& source = exchange->request();
  Json body;
  SessionCall call;
  if (MaybeFault fault = read_session_body(site, source, fields, body, call)) {
    return refuse_session(*exchange, *fault);
  }
  SessionState session;
  std::stop_token removed;
  if (MaybeFault fault = site.sessions->take(call.cache_namespace, id, session, removed)) {
    return refuse_session(*exchange, *fault);
  }
  ChatCall chat;
  MaybeFault fault = change(call, session.messages);
  if (!fault) fault = read_session_chat(site, source, std::move(body), session, chat);
  if (fault) {
    site.sessions->release(call.cache_namespace, id);
    return refuse_session(*exchange, *fault);
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
  MaybeFault fault = read_session_body(site, exchange->request(), session_fields(), body, call);
  SessionState session{.id = site.new_id("session_"), .created = site.now_s()};
  // A document that was saved has its settings in an object of their own.
  for (const char* name : {"messages", "id", "object", "created", "settings"}) body.erase(name);
  if (call.settings.is_object()) session.settings = call.settings;
  for (auto& [name, value] : body.get_ref<Json::object_t&>()) session.settings[name] = std::move(value);
  session.settings.erase("user");  // every request says whose it is
  if (!fault && call.messages.is_array() && !call.messages.empty()) {
    fault = read_chat_messages(call.messages, session.messages);
    if (fault) fault->param = "messages" + fault->param;
  }
  // What does not fit an answer is refused now, and not with the first question.
  if (!fault) {
    Json probe = session.settings;
    probe["messages"] = Json::array();
    probe["messages"].push_back(make_message(Role::kUser, "x"));
    ChatCall chat;
    fault = read_chat_body(site, exchange->request(), probe, chat);
  }
  if (!fault) fault = site.sessions->create(call.cache_namespace, session);
  if (fault) return refuse_session(*exchange, *fault);
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
  if (MaybeFault fault = site.sessions->find(cache_namespace, id, session)) {
    return refuse_session(*exchange, *fault);
  }
  respond_json(*exchange, session_json(session));
}

void delete_session(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                    const std::string& id) {
  if (MaybeFault fault = site.sessions->remove(cache_namespace, id)) {
    return refuse_session(*exchange, *fault);
  }
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
  if (MaybeFault fault = read_session_body(site, exchange->request(), session_rewind_fields(), body, call)) {
    return refuse_session(*exchange, *fault);
  }
  const std::string& cache_namespace = call.cache_namespace;
  SessionState session;
  std::stop_token removed;
  if (MaybeFault fault = site.sessions->take(cache_namespace, id, session, removed)) {
    return refuse_session(*exchange, *fault);
  }
  if (MaybeFault fault = keep_first(call, session.messages)) {
    site.sessions->release(cache_namespace, id);
    return refuse_session(*exchange, *fault);
  }
  (void)site.sessions->commit(cache_namespace, id, session.messages);  // what is smaller fits
  respond_json(*exchange, session_json(session));
}

void post_session_fork(const Site& site, const http::ExchangePtr& exchange, const std::string& id) {
  Json body;
  SessionCall call;
  SessionState session;
  MaybeFault fault = read_session_body(site, exchange->request(), session_fork_fields(), body, call);
  if (!fault) fault = site.sessions->find(call.cache_namespace, id, session);
  if (!fault) fault = keep_first(call, session.messages);
  if (!fault) {
    session.id = site.new_id("session_");
    session.created = site.now_s();
    fault = site.sessions->create(call.cache_namespace, session);
  }
  if (fault) return refuse_session(*exchange, *fault);
  respond_json(*exchange, session_json(session));
}

}  // namespace ibid::serve
