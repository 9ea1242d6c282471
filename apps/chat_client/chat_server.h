// ChatServer: client for a server with OpenAI's chat completions, `ibid serve` or another. It requests streams and
// passes on answers as they arrive.
//
// Immutable and thread-safe: each call uses a connection of its own. A stop request closes it, which cancels the
// answer. Server text is untrusted: names and error reasons are reduced to one line without control characters; answers
// are passed on unchanged.
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
  std::string base;         // "http://127.0.0.1:8080": what precedes "/v1/..."
  std::string unix_socket;  // a path; empty: none
  std::string key;          // empty: none
  std::string name() const { return unix_socket.empty() ? base : "unix:" + unix_socket; }  // for messages
};

// Parses http://HOST[:PORT][/PATH], the same with https, or unix:PATH for a Unix socket. A trailing "/v1", as other
// clients require, is optional. Error: kInvalidArgument with the reason; also for a key in the URL, because command
// lines are visible to every user of the machine.
Result<ServerAddress> parse_server_address(const std::string& url);

// Returns the API key: the first in the file, which may be the server's own key file (server/http/api_keys.h); without
// a file that of IBID_API_KEY; else empty. Errors: those of reading the file.
Result<std::string> read_client_key(const std::string& path);

struct ServedModel {
  std::string name;
  std::string owner;   // "ibid" for ibid servers; may be empty
  size_t context = 0;  // in tokens; 0: unknown
};

// A streamed part of an answer.
struct ChatPart {
  enum class Kind { kReading, kReasoning, kText, kCall };
  Kind kind = Kind::kText;
  std::string_view text = {};  // kReasoning, kText; kCall: next part of the name, then of the arguments
  bool begins = false;         // kCall: the first part, with the name
  size_t n_done = 0;           // kReading: prefilled tokens of the prompt
  size_t n_total = 0;
};

struct ChatReply {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;
  std::optional<LostPrefix> lost_prefix;  // reported by ibid servers, without the texts
  std::string finish_reason;              // as the server reports it; empty: stopped
  bool was_stopped = false;               // by the stop token; the reply is partial
  // As reported by the server; absent: not reported.
  std::optional<size_t> n_prompt, n_cached, n_completion_tokens;
  std::optional<uint64_t> seed;
  std::string model;    // that generated the answer
  size_t n_parts = 0;   // received pieces of text
  double first_ms = 0;  // from the call to the first piece of text; 0: none
  double last_ms = 0;   // from the call to the last one
  double total_ms = 0;
};

class ChatServer {
 public:
  explicit ChatServer(ServerAddress address) : address_(std::move(address)) {}

  std::string name() const { return address_.name(); }

  // Errors: those of complete(). kNotFound: the server has no list of models.
  Result<std::vector<ServedModel>> models(std::stop_token stop = {}) const;

  // Sends `request`, a body without "stream" and its options. Calls `on_part` on the calling thread. Errors, with the
  // server's name and advice: kIo: no connection, or it ended within the answer (parts already passed to `on_part` are
  // not returned); kInvalidArgument: a key is missing or wrong, or the request was rejected; kNotFound: no such model,
  // with the available ones; kBusy: overloaded, with the time to retry; kBadHeader: the response is not a stream of
  // chat completions; kLimitExceeded; kUnsupported.
  using OnPart = std::function<void(const ChatPart&)>;
  Result<ChatReply> complete(Json request, std::stop_token stop, const OnPart& on_part) const;

 private:
  HttpRequest request_to(const std::string& path, std::stop_token stop) const;
  Status failure(const HttpAnswer& answer, const std::string& model) const;
  Status no_such_model(const std::string& model, const std::string& said) const;

  const ServerAddress address_;
};

}  // namespace ibid
