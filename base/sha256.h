// SHA-256, for identifiers that must not be forgeable. Checksums of bulk data use the faster XXH3. One object is used
// by one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;

namespace ibid {

using Sha256Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256();  // throws std::bad_alloc
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view bytes) { update(std::as_bytes(std::span(bytes))); }
  // Returns the digest of all bytes since construction or the last finish(), and starts over.
  Sha256Digest finish();

 private:
  void begin();
  evp_md_ctx_st* context_;
};

// Lower-case hexadecimal digits, two per byte.
std::string to_hex(std::span<const std::byte> bytes);

}  // namespace ibid
