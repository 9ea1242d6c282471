// Sealer: encrypts and authenticates values that a shared server keeps (AES-256-GCM), so that a reader of the server's
// memory learns only how many values there are and how long they are, and a value that anybody else wrote, changed or
// moved to another name is refused.
//
// A sealed value:
//   0   "ibS1"
//   4   id of the key, 4 bytes
//   8   random nonce, 12 bytes
//   20  the encrypted value
//   +n  tag, 16 bytes
// The tag covers the first 8 bytes and the name as well. Each name has its own key, derived by HKDF-SHA-256 from a key
// of the file, so random nonces never repeat under one key in practice. Names are derived in the same way: without a
// key nobody can tell whether the server has the value of a given text.
//
// Key file: one key of 64 hexadecimal digits in a line; "#" begins a comment. A second key is still accepted by open()
// while all programs get the first one.
//
// Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid::net {

class Sealer {
 public:
  static constexpr size_t kOverheadBytes = 36;  // bytes that sealing adds to a value

  // Errors: those of read_private_file() and parse().
  static Result<Sealer> read(const std::string& path);
  // Error: kInvalidArgument, which names the place and never contains a key. what: name of the text.
  static Result<Sealer> parse(std::string_view text, const std::string& what);

  // Replaces the content of `sealed` by the sealed pieces. Error: kIo if the system has no random bytes.
  Status seal(std::string_view name, std::span<const std::span<const std::byte>> pieces,
              std::vector<std::byte>& sealed) const;
  // Decrypts a value in place, and returns where it lies in `sealed`. Errors: kTruncated; kMismatch if it was sealed
  // with another key, or is not sealed; kCorrupt if it was not sealed for this name, or was changed. After an error the
  // content of `sealed` must not be used.
  Result<std::span<std::byte>> open(std::string_view name, std::span<std::byte> sealed) const;

  // Names under which a value may be found: one for each key, the first for writing.
  size_t n_keys() const { return keys_.size(); }
  std::array<std::byte, 16> hidden_name(size_t key, std::span<const std::byte> name) const;

 private:
  static constexpr size_t kKeyBytes = 32, kIdBytes = 4;
  struct Key {
    std::array<std::byte, kKeyBytes> bytes;
    std::array<std::byte, kIdBytes> id;
  };
  std::vector<Key> keys_;  // one or two
};

}  // namespace ibid::net
