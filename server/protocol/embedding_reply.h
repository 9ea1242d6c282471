// EmbeddingWriter: hears of a request for embeddings and writes the response, in the words that a protocol gives it.
// And vectors as text: numbers as JSON has them, or base64.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>

#include "server/http/exchange.h"
#include "server/protocol/fault.h"
#include "server/service/request.h"

namespace ibid::serve {

class EmbeddingWriter final : public EmbeddingListener {
 public:
  // The body of a response: JSON as text, because vectors as values would take many times their room.
  using Write = std::function<std::string(const EmbeddingReply& reply)>;
  EmbeddingWriter(http::ExchangePtr exchange, ErrorStyle style, Write write);

  void reply(EmbeddingReply reply) override;
  void fail(const Status& status, std::chrono::seconds retry_after) override;

 private:
  http::ExchangePtr exchange_;
  ErrorStyle style_;
  Write write_;
};

// Appends "[0.25,-1]": the shortest numbers that are read as the same floats.
void append_numbers(std::string& out, std::span<const float> vector);
// Appends the floats' bytes, the least significant first, in base64 (RFC 4648) with quotes around it.
void append_base64(std::string& out, std::span<const float> vector);

}  // namespace ibid::serve
