// ChatServer: client for a server with OpenAI's chat completions, `ibid serve` or another. Requests streams, and passes
// on the parts of answers as they arrive.
//
// Immutable and thread-safe: each call uses a connection of its own. Requesting a stop closes the connection, which
// cancels the answer. Text from a server is untrusted: names and error reasons are reduced to one line without control
// characters; answers are passed on unchanged.
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
  std::string base;         // "http://127.0.0.1:8080": the part of the URL before "/v1/..."
  std::string unix_socket;  // path of the socket; empty: TCP
  std::string key;          // API key; empty: none is sent
  std::string name() const { return unix_socket.empty() ? base : "unix:" + unix_socket; }  // for error messages
};

// Parses http://HOST[:PORT][/PATH], the same with https, or unix:PATH for a Unix socket. "/v1" at the end is accepted,
// because other clients require it. Error: kInvalidArgument with the reason. An API key in the URL is an error too,
// because every user of the machine can see command lines.
Result<ServerAddress> parse_server_address(const std::string& url);

// Returns the API key: the first key of the file, which may be the server's own key file (server/http/api_keys.h);
// without a file, IBID_API_KEY; else empty. Errors: those of reading the file.
Result<std::string> read_client_key(const std::string& path);

struct ServedModel {
  std::string name;
  std::string owner;   // kind of server, from owned_by in its list of models: "ibid" for ibid servers; may be empty
  size_t context = 0;  // context length in tokens; 0: unknown
};

struct ChatPart {
  enum class Kind { kReading, kReasoning, kText, kCall };
  Kind kind = Kind::kText;
  // kReasoning, kText: next piece of text; kCall: next piece of the tool's name, then of the arguments.
  std::string_view text = {};
  bool begins = false;  // kCall: true for the first piece of a call, which begins the tool's name
  size_t n_done = 0;    // kReading: number of prompt tokens prefilled so far
  size_t n_total = 0;
};

struct ChatReply {
  std::string reasoning;
  std::string content;
  std::vector<ToolCall> tool_calls;
  std::optional<LostPrefix> lost_prefix;  // why cached tokens were prefilled again (ibid servers), without texts
  std::string finish_reason;              // reason that the server reports; empty: the answer was stopped
  bool was_stopped = false;               // the caller's stop token ended the answer, so the reply is partial
  // Counts that the server reports; nullopt: not reported.
  std::optional<size_t> n_prompt, n_cached, n_completion_tokens;
  std::optional<uint64_t> seed;
  std::string model;    // model that generated the answer
  size_t n_parts = 0;   // number of received pieces of text
  double first_ms = 0;  // time from the call to the first piece of text; 0: no text came
  double last_ms = 0;   // time from the call to the last piece of text
  double total_ms = 0;
};

class ChatServer {
 public:
  explicit ChatServer(ServerAddress address) : address_(std::move(address)) {}

  std::string name() const { return address_.name(); }

  // Returns the models that the server lists. Errors: those of complete(); kNotFound if the server has no list of
  // models.
  Result<std::vector<ServedModel>> models(std::stop_token stop = {}) const;

  // Receives the parts of an answer as they arrive, on the thread that called complete().
  using OnPart = std::function<void(const ChatPart&)>;
  // Sends `request`, a body without "stream" and its options. Errors, with the server's name and advice: kIo: no
  // connection, or it ended within the answer (parts already passed to `on_part` are not returned); kInvalidArgument: a
  // key is missing or wrong, or the request was rejected; kNotFound: no such model, with the available ones; kBusy:
  // overloaded, with the time after which to retry; kBadHeader: the response is not a stream of chat completions;
  // kLimitExceeded; kUnsupported.
  Result<ChatReply> complete(Json request, std::stop_token stop, const OnPart& on_part) const;

 private:
  HttpRequest request_to(const std::string& path, std::stop_token stop) const;
  Status failure(const HttpAnswer& answer, const std::string& model) const;
  Status no_such_model(const std::string& model, const std::string& server_message) const;

  const ServerAddress address_;
};

}  // namespace ibid
