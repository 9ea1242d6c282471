// MemoryStream: a ByteStream that receives given bytes, in pieces of a given size, and then ends.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "net/byte_stream.h"

namespace ibid::net {

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::string_view bytes, size_t piece_bytes = SIZE_MAX)
      : bytes_(bytes), piece_bytes_(piece_bytes) {}

  Status send(Pieces pieces, const TimeLimits&) override {
    for (const auto piece : pieces) sent_.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  }
  Result<size_t> receive(std::span<std::byte> room, const TimeLimits&) override {
    const size_t n = std::min({room.size(), piece_bytes_, bytes_.size()});
    if (n > 0) std::memcpy(room.data(), bytes_.data(), n);
    bytes_.remove_prefix(n);
    return n;
  }
  bool is_quiet() override { return true; }

  size_t n_left() const { return bytes_.size(); }
  const std::string& sent() const { return sent_; }

 private:
  std::string_view bytes_;
  const size_t piece_bytes_;
  std::string sent_;
};

}  // namespace ibid::net
