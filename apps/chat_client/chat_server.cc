#include "apps/chat_client/chat_server.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/chat_client/reply_reader.h"
#include "apps/command_line/command.h"
#include "apps/sessions/message_text.h"
#include "apps/terminal/terminal_text.h"
#include "server/http/api_keys.h"

namespace ibid {

namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kWanted = "expected http://HOST:PORT, https://HOST or unix:PATH";

Status wrong(const std::string& what) { return {ErrorCode::kInvalidArgument, "--url: " + what}; }

bool has_blank_or_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f; });
}

}  // namespace

Result<ServerAddress> parse_server_address(const std::string& url) {
  ServerAddress address;
  if (url.starts_with(kUnix)) {
    std::string_view path = std::string_view(url).substr(kUnix.size());
    if (path.starts_with("//")) path.remove_prefix(2);
    if (path.empty()) return wrong("a path is missing after unix:");
    address.base = "http://localhost";
    address.unix_socket = path;
    return address;
  }
  if (has_blank_or_control(url)) return wrong("it contains a blank; " + std::string(kWanted));
  const size_t scheme = url.find("://");
  if (!url.starts_with("http://") && !url.starts_with("https://")) {
    const bool may_be_host = scheme == std::string::npos && !url.empty() && url[0] != '/' && url[0] != '.';
    return wrong("'" + url + "' is not a URL; " + std::string(kWanted) + (may_be_host ? ", as http://" + url : ""));
  }
  const size_t host = scheme + 3;
  const size_t path = std::min(url.find('/', host), url.size());
  if (path == host) return wrong("'" + url + "' names no host; " + std::string(kWanted));
  if (url.find('@', host) < path) return wrong("the URL must not hold a key: use --api-key-file FILE or IBID_API_KEY");
  if (url.find_first_of("?#", host) != std::string::npos) return wrong("'" + url + "' contains a ? or #");
  address.base = url;
  while (address.base.size() > host && address.base.ends_with('/')) address.base.pop_back();
  if (address.base.ends_with("/v1")) address.base.resize(address.base.size() - 3);
  while (address.base.size() > host && address.base.ends_with('/')) address.base.pop_back();
  return address;
}

Result<std::string> read_client_key(const std::string& path) {
  TRY_ASSIGN(const std::vector<http::ApiKey> keys, serve::read_api_keys(path));
  return keys.empty() ? std::string() : keys.front().key;
}

namespace {

constexpr size_t kMaxListBytes = 4u << 20;
constexpr size_t kMaxNamesShown = 12;
constexpr size_t kShownNameCharacters = 100;
constexpr const char* kChatPath = "/v1/chat/completions";

std::string name_member(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Returns the context length that a model's entry reports, in the form of ibid and llama.cpp or of vLLM; 0: none
// reported.
size_t context_of(const Json& model) {
  if (const auto meta = model.find("meta"); meta != model.end()) {
    if (const auto n = whole_member(*meta, "n_ctx")) return *n;
    if (const auto n = whole_member(*meta, "n_ctx_train")) return *n;
  }
  return whole_member(model, "max_model_len").value_or(0);
}

Result<std::vector<ServedModel>> models_in(const std::string& text) {
  TRY_ASSIGN(const Json list, parse_json(text, "its list of models", {.allow_duplicate_keys = true}));
  const auto data = list.is_object() ? list.find("data") : list.end();
  if (!list.is_object() || data == list.end() || !data->is_array()) {
    return Status(ErrorCode::kBadHeader, "its list of models has no \"data\"");
  }
  std::vector<ServedModel> models;
  for (const Json& model : *data) {
    if (!model.is_object()) continue;
    const std::string name = name_member(model, "id");
    if (!name.empty()) models.push_back({name, name_member(model, "owned_by"), context_of(model)});
  }
  return models;
}

std::string in_seconds(const std::optional<uint64_t>& seconds) {
  return seconds ? "in " + std::to_string(*seconds) + " s" : "a little later";
}

}  // namespace

HttpRequest ChatServer::request_to(const std::string& path, std::stop_token stop) const {
  HttpRequest request;
  request.url = address_.base + path;
  request.token = address_.key;
  request.stop = std::move(stop);
  request.unix_socket = address_.unix_socket;
  return request;
}

Status ChatServer::no_such_model(const std::string& model, const std::string& server_message) const {
  std::string names;
  const Result<std::vector<ServedModel>> known = models();
  for (size_t i = 0; known.ok() && i < known->size(); ++i) {
    if (i == kMaxNamesShown) {
      names += " and " + std::to_string(known->size() - i) + " more";
      break;
    }
    names += (names.empty() ? "" : ", ") + excerpt(one_line((*known)[i].name), kShownNameCharacters);
  }
  if (!names.empty()) {
    return {ErrorCode::kNotFound, name() + " has no model '" + model + "'; it has " + names};
  }
  return {ErrorCode::kNotFound,
          name() + (server_message.empty() ? " has no chat completions (404)" : ": " + server_message)};
}

Status ChatServer::failure(const HttpAnswer& answer, const std::string& model) const {
  const std::string server_message = error_message_of(answer.error_text);
  const std::string why = server_message.empty() ? "" : ": " + server_message;
  if (answer.is_untrusted) {
    return {ErrorCode::kIo, name() +
                                " has a certificate that this machine does not trust, so nothing was sent; if the "
                                "server is yours, SSL_CERT_FILE=FILE names its certificate (PEM)"};
  }
  if (answer.has_no_tls) {
    return {ErrorCode::kIo, name() + " cannot be reached with TLS (" + answer.problem + "); if it speaks plain HTTP, " +
                                "its URL begins with http://"};
  }
  if (answer.status == 0) {
    return {ErrorCode::kIo,
            "no server answers at " + name() + " (" + answer.problem + "); " + own_command("serve") + " starts one"};
  }
  if (answer.status == 401 || answer.status == 403) {
    const std::string wants = address_.key.empty() ? " wants an API key: --api-key-file FILE, or IBID_API_KEY"
                                                   : " does not take this API key";
    // A server may also send 403 for reasons other than the API key.
    const bool is_about_key = answer.status == 401 || server_message.empty();
    return {ErrorCode::kInvalidArgument, name() + (is_about_key ? wants : " refuses the request") + why};
  }
  if (answer.status == 404) return no_such_model(model, server_message);
  if (answer.status == 429 || answer.status == 503 || answer.status == 529) {
    return {ErrorCode::kBusy,
            name() + " accepts no more requests now" + why + "; send it again " + in_seconds(answer.retry_after_s)};
  }
  if (answer.status >= 300 && answer.status < 400) {
    return {ErrorCode::kUnsupported, name() + " redirects to another address (" + std::to_string(answer.status) +
                                         "), which is not followed; name it with --url"};
  }
  const ErrorCode code = answer.status < 500 ? ErrorCode::kInvalidArgument : ErrorCode::kIo;
  return {code, name() + (server_message.empty()
                              ? " refuses the request without a reason (status " + std::to_string(answer.status) + ")"
                              : why)};
}

Result<std::vector<ServedModel>> ChatServer::models(std::stop_token stop) const {
  std::string text;
  const auto take = [&](long, std::string_view bytes) {
    text += bytes;
    return text.size() <= kMaxListBytes;
  };
  TRY_ASSIGN(const HttpAnswer answer, http_get(request_to("/v1/models", stop), take));
  if (stop.stop_requested()) return Status(ErrorCode::kCancelled, "interrupted");
  if (answer.status == 404) {
    return Status(ErrorCode::kNotFound,
                  name() +
                      " has no list of models (404 for /v1/models) and may not support OpenAI chat completions; "
                      "--model NAME tries it anyway");
  }
  if (answer.status == 0 || answer.status >= 300) return failure(answer, "");
  if (text.size() > kMaxListBytes) {
    return Status(ErrorCode::kLimitExceeded, name() + ": its list of models exceeds 4 MiB");
  }
  if (!answer.problem.empty()) return Status(ErrorCode::kIo, name() + ": " + answer.problem);
  Result<std::vector<ServedModel>> models = models_in(text);
  if (models.ok()) return models;
  return Status(ErrorCode::kBadHeader,
                name() + " does not support OpenAI chat completions: " + models.status().message());
}

Result<ChatReply> ChatServer::complete(Json request, std::stop_token stop, const OnPart& on_part) const {
  const std::string model = name_member(request, "model");
  request["stream"] = true;
  request["stream_options"]["include_usage"] = true;
  HttpRequest sent = request_to(kChatPath, stop);
  sent.silent_seconds = 0;  // no timeout while no bytes arrive, because prefilling a long prompt takes long
  ReplyReader reader(on_part);
  Status read;
  EventStream events([&](std::string_view data) { return reader.take(data); });
  const auto take = [&](long, std::string_view bytes) {
    read = events.feed(bytes);
    return read.ok();
  };
  TRY_ASSIGN(const HttpAnswer answer, http_post(sent, json_to_string(request), take));
  ChatReply reply = reader.reply();
  if (stop.stop_requested() && !reader.has_ended()) {
    reply.was_stopped = true;
    return reply;
  }
  if (!read.ok()) return Status(read.code(), name() + ": " + read.message());
  if (answer.status == 0 || answer.status >= 300) return failure(answer, model);
  if (!reader.has_received_events()) {
    return Status(ErrorCode::kBadHeader,
                  name() + " does not support OpenAI chat completions, or does not stream: it answered with " +
                      (answer.content_type.empty() ? "nothing" : one_line(answer.content_type)));
  }
  if (!reader.has_ended()) {
    return Status(ErrorCode::kIo, name() + ": the connection ended in the middle of the answer" +
                                      (answer.problem.empty() ? "" : " (" + answer.problem + ")"));
  }
  return reply;
}

}  // namespace ibid
