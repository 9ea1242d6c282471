// ChatServer: a server that speaks OpenAI's chat completions, from the client's side: `ibid serve`, or another. It asks
// for streams and passes the answer on as it comes.
//
// Immutable and thread-safe: each call has a connection of its own. A stop closes it, which tells the server that
// the answer is not wanted any more. A server's words are text of a stranger: names and reasons of errors come without
// control characters, in one line; an answer comes as it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "apps/http_client/http.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/turn.h"

namespace ibid {

struct ServerAddress {
  std::string base;         // "http://127.0.0.1:8080": what stands in front of "/v1/..."
  std::string unix_socket;  // a path; empty: none
  std::string key;          // empty: none
  std::string name() const { return unix_socket.empty() ? base : "unix:" + unix_socket; }  // for people
};

// http://HOST[:PORT][/PATH], the same with https, or unix:PATH for a Unix socket. "/v1" at the end, which the clients
// of others want, may stand there or not.
// Error: kInvalidArgument, which says what is wrong; also for a key in the URL, which every user of the machine can
// read on a command line.
Result<ServerAddress> parse_server_address(const std::string& url);

// The key of a client: the first of the file, which may be the server's own (server/http/api_keys.h); without a
// file that of IBID_API_KEY; else empty. Errors: those of reading the file.
Result<std::string> read_client_key(const std::string& path);

struct ServedModel {
  std::string name;
  std::string owner;   // "ibid" of an ibid; may be empty
  size_t context = 0;  // in tokens; 0: the server does not say
};

// A part of an answer, as it comes.
struct ChatPart {
  enum class Kind { kReading, kReasoning, kText, kCall };
  Kind kind = Kind::kText;
  std::string_view text = {};  // kReasoning, kText; kCall: the next of a call's name, then of its arguments
  bool begins = false;         // kCall: with its name
  size_t n_done = 0;           // kReading: tokens of the prompt that are read, and all of them
  size_t n_total = 0;
};

struct ChatReply {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;
  std::optional<LostPrefix> lost_prefix;  // as an ibid says; without the texts
  std::string finish_reason;        // the server's word; empty: it was stopped
  bool was_stopped = false;         // by the stop token; what came until then is here
  // As the server says; absent: it does not.
  std::optional<size_t> n_prompt, n_cached, n_said;
  std::optional<uint64_t> seed;
  std::string model;                // that answered
  size_t n_parts = 0;               // pieces of text that came
  double first_ms = 0;              // from the call to the first piece of text; 0: no text came
  double last_ms = 0;               //               to the last one
  double total_ms = 0;
};

class ChatServer {
 public:
  explicit ChatServer(ServerAddress address) : address_(std::move(address)) {}

  std::string name() const { return address_.name(); }

  // Errors: as complete(). kNotFound: the server has no such list.
  Result<std::vector<ServedModel>> models(std::stop_token stop = {}) const;

  // Answers `request`, a body without "stream" and what belongs to it. Runs `on_part` on the calling thread.
  // Errors, each with the server's name and what can be done: kIo: nobody answers there, or the connection ended in
  // the middle of the answer (what was heard until then was told to `on_part`, and is lost else); kInvalidArgument:
  // the server wants a key, or another, or refuses the request; kNotFound: it has no such model, with those it has;
  // kBusy: it takes no more now, with when to come again; kBadHeader: what comes is no stream of chat completions;
  // kLimitExceeded; kUnsupported.
  using OnPart = std::function<void(const ChatPart&)>;
  Result<ChatReply> complete(Json request, std::stop_token stop, const OnPart& on_part) const;

 private:
  HttpRequest request_to(const std::string& path, std::stop_token stop) const;
  Status failure(const HttpAnswer& answer, const std::string& model) const;
  Status no_such_model(const std::string& model, const std::string& said) const;

  const ServerAddress address_;
};

}  // namespace ibid
