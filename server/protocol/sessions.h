// /v1/sessions (our own): conversations that the server keeps. Requests say what is new; answers are those of chat
// completions, streams too, and become part of the session when they are whole.
//
//   POST   /v1/sessions                 {"messages"?, any field of chat completions that holds for all its answers}
//   GET    /v1/sessions                 those that there are;  GET, DELETE /v1/sessions/{id}
//   POST   /v1/sessions/{id}/messages   {"content": text} or {"message": {...}}
//   POST   /v1/sessions/{id}/edit       {"message": number, "content": text}: replaced, and answered again
//   POST   /v1/sessions/{id}/regenerate answers the last question again
//   POST   /v1/sessions/{id}/rewind     {"n_messages": number}: the first of them stay
//   POST   /v1/sessions/{id}/fork       {"n_messages"?}: another session with the same messages, or the first of them
//   POST   /v1/sessions/{id}/save       the session as a document; POST /v1/sessions/restore takes one
#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/protocol/call.h"
#include "server/protocol/site.h"

namespace ibid::serve {

// The fields that sessions have besides those of chat completions.
struct SessionCall {
  std::string cache_namespace = {};
  Json messages = Json();                // those of the whole session
  Json settings = Json();                // of a document that was saved
  std::optional<std::string> content = {};
  Json message = Json();                 // an object, or a number in edit
  std::optional<size_t> n_messages = {};
};
std::span<const Field<SessionCall>> session_fields();
std::span<const Field<SessionCall>> session_message_fields();
std::span<const Field<SessionCall>> session_edit_fields();
std::span<const Field<SessionCall>> session_rewind_fields();
std::span<const Field<SessionCall>> session_fork_fields();

void post_session(const Site& site, const http::ExchangePtr& exchange);
void get_sessions(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace);
void get_session(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                 const std::string& id);
void delete_session(const Site& site, const http::ExchangePtr& exchange, const std::string& cache_namespace,
                    const std::string& id);
void post_session_message(const Site& site, const http::ExchangePtr& exchange, const std::string& id);
void post_session_edit(const Site& site, const http::ExchangePtr& exchange, const std::string& id);
void post_session_regenerate(const Site& site, const http::ExchangePtr& exchange, const std::string& id);
void post_session_rewind(const Site& site, const http::ExchangePtr& exchange, const std::string& id);
void post_session_fork(const Site& site, const http::ExchangePtr& exchange, const std::string& id);

}  // namespace ibid::serve
