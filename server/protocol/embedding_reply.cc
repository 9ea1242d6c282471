#include "server/protocol/embedding_reply.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <utility>

namespace ibid::serve {
namespace {

double ms_of(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

// Unlike a conversation, a text has nothing that could be left out of it.
Fault fault_of_embedding(const Status& status) {
  Fault fault = fault_of(status);
  if (status.code() == ErrorCode::kContextFull) fault.message = status.message() + "; send a shorter text";
  return fault;
}

}  // namespace

EmbeddingWriter::EmbeddingWriter(http::ExchangePtr exchange, ErrorStyle style, Write write)
    : exchange_(std::move(exchange)), style_(style), write_(std::move(write)) {}

void EmbeddingWriter::reply(EmbeddingReply reply) {
  exchange_->set_figures({.model = reply.model, .n_prompt = reply.n_prompt, .n_prefilled = reply.n_prompt,
                          .queue_ms = ms_of(reply.queued), .prefill_ms = ms_of(reply.computed)});
  exchange_->respond({.body = write_(reply)});
  exchange_.reset();
}

void EmbeddingWriter::fail(const Status& status, std::chrono::seconds retry_after) {
  Fault fault = fault_of_embedding(status);
  fault.retry_after = retry_after;
  exchange_->respond(fault_response(fault, style_));
  exchange_.reset();
}

void append_numbers(std::string& out, std::span<const float> vector) {
  std::array<char, 32> buffer{};
  char separator = '[';
  for (const float number : vector) {
    out += separator;
    separator = ',';
    const auto written = std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
    out.append(buffer.data(), written.ptr);
  }
  out += vector.empty() ? "[]" : "]";
}

void append_base64(std::string& out, std::span<const float> vector) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  out += '"';
  uint32_t bits = 0;
  size_t n_bytes = 0;
  const auto flush = [&](size_t n_digits) {  // of the three bytes in `bits`
    for (size_t i = 0; i < 4; ++i) out += i < n_digits ? kDigits[bits >> (18 - 6 * i) & 63u] : '=';
    bits = 0;
  };
  for (const float number : vector) {
    const auto word = std::bit_cast<uint32_t>(number);
    for (unsigned shift = 0; shift < 32; shift += 8, ++n_bytes) {
      bits |= (word >> shift & 255u) << (16 - 8 * (n_bytes % 3));
      if (n_bytes % 3 == 2) flush(4);
    }
  }
  if (n_bytes % 3 != 0) flush(n_bytes % 3 + 1);
  out += '"';
}

}  // namespace ibid::serve
