#include "net/resp_client.h"

#include "base/check.h"
#include "base/text.h"

namespace ibid::net {

RespRequest& RespRequest::command(size_t n_words) {
  text_ += "*" + std::to_string(n_words) + "\r\n";
  ++n_commands_;
  return *this;
}

RespRequest& RespRequest::word(std::string_view word) {
  (text_ += "$" + std::to_string(word.size()) + "\r\n").append(word) += "\r\n";
  return *this;
}

RespRequest& RespRequest::value(ByteStream::Pieces pieces) {
  size_t n_bytes = 0;
  for (const std::span<const std::byte> piece : pieces) n_bytes += piece.size();
  text_ += "$" + std::to_string(n_bytes) + "\r\n";
  for (const std::span<const std::byte> piece : pieces) values_.push_back({text_.size(), piece});
  text_ += "\r\n";
  return *this;
}

std::vector<std::span<const std::byte>> RespRequest::pieces() const {
  std::vector<std::span<const std::byte>> pieces;
  const std::span<const std::byte> text = std::as_bytes(std::span(text_));
  size_t begin = 0;
  for (const Value& value : values_) {
    if (value.position > begin) pieces.push_back(text.subspan(begin, value.position - begin));
    begin = value.position;
    pieces.push_back(value.bytes);
  }
  pieces.push_back(text.subspan(begin));
  return pieces;
}

RespRequest resp_command(std::initializer_list<std::string_view> words) {
  RespRequest request;
  request.command(words.size());
  for (const std::string_view word : words) request.word(word);
  return request;
}

Status status_of(const RespValue& answer) {
  if (answer.kind != RespValue::Kind::kError) return {};
  constexpr std::pair<std::string_view, ErrorCode> kCodes[] = {{"LOADING", ErrorCode::kBusy},
                                                               {"MASTERDOWN", ErrorCode::kBusy},
                                                               {"BUSY", ErrorCode::kBusy},
                                                               {"TRYAGAIN", ErrorCode::kBusy},
                                                               {"CLUSTERDOWN", ErrorCode::kBusy},
                                                               {"OOM", ErrorCode::kLimitExceeded},
                                                               {"NOAUTH", ErrorCode::kInvalidArgument},
                                                               {"WRONGPASS", ErrorCode::kInvalidArgument},
                                                               {"NOPERM", ErrorCode::kInvalidArgument},
                                                               {"WRONGTYPE", ErrorCode::kBadType}};
  const std::string_view word = std::string_view(answer.text).substr(0, answer.text.find(' '));
  ErrorCode code = ErrorCode::kUnsupported;
  for (const auto& [known, meaning] : kCodes) {
    if (word == known) code = meaning;
  }
  return {code, "the server reports " + in_quotes(answer.text)};
}

Status status_of(std::span<const RespValue> answers) {
  for (const RespValue& answer : answers) {
    TRY(status_of(answer));
    TRY(status_of(answer.elements));
  }
  return {};
}

Status unexpected(const RespValue& answer, std::string_view wanted) {
  TRY(status_of(answer));
  return {ErrorCode::kBadType, "the answer of the server is not " + std::string(wanted)};
}

RespClient::RespClient(std::unique_ptr<ByteStream> stream, std::string server)
    : stream_(std::move(stream)), server_(std::move(server)), reader_(*stream_) {}

Result<std::unique_ptr<RespClient>> RespClient::connect(const Connector& connector, const TimeLimits& limits) {
  TRY_ASSIGN(std::unique_ptr<ByteStream> stream, connector.connect(limits));
  std::unique_ptr<RespClient> client(new RespClient(std::move(stream), connector.address().shown()));
  TRY(client->log_in(connector.address(), limits));
  return client;
}

Status RespClient::log_in(const ServerAddress& address, const TimeLimits& limits) {
  std::vector<RespRequest> requests;
  if (!address.password.empty() && address.user.empty()) {
    requests.push_back(resp_command({"AUTH", address.password}));
  } else if (!address.password.empty()) {
    requests.push_back(resp_command({"AUTH", address.user, address.password}));
  }
  if (address.database != 0) requests.push_back(resp_command({"SELECT", std::to_string(address.database)}));
  for (const RespRequest& request : requests) {
    TRY_ASSIGN(const RespValue answer, call(request, limits));
    if (!answer.is("OK")) return failed(unexpected(answer, "OK"));
  }
  return {};
}

Status RespClient::failed(const Status& status) {
  has_failed_ = true;
  return {status.code(), server_ + ": " + status.message()};
}

Status RespClient::send(const RespRequest& request, const TimeLimits& limits) {
  n_unanswered_ += request.n_commands();
  Status sent = stream_->send(request.pieces(), limits);
  return sent.ok() ? sent : failed(sent);
}

Result<RespValue> RespClient::receive(const TimeLimits& limits, std::span<std::byte> room) {
  CHECK(n_unanswered_ > 0);
  Result<RespValue> answer = reader_.read(limits, room);
  if (!answer.ok()) return failed(answer.status());
  --n_unanswered_;
  return answer;
}

Result<RespValue> RespClient::call(const RespRequest& request, const TimeLimits& limits, std::span<std::byte> room) {
  CHECK_EQ(request.n_commands(), 1u);
  TRY(send(request, limits));
  return receive(limits, room);
}

Result<std::vector<RespValue>> RespClient::call_all(const RespRequest& request, const TimeLimits& limits,
                                                    std::span<std::byte> room) {
  TRY(send(request, limits));
  std::vector<RespValue> answers;
  for (size_t n_left = request.n_commands(); n_left > 0; --n_left) {
    TRY_ASSIGN(RespValue answer, receive(limits, n_left == 1 ? room : std::span<std::byte>()));
    answers.push_back(std::move(answer));
  }
  return answers;
}

bool RespClient::is_reusable() {
  return !has_failed_ && n_unanswered_ == 0 && !reader_.has_buffered() && stream_->is_quiet();
}

}  // namespace ibid::net
