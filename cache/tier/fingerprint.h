// Fingerprint: says which computation keys and values come from. Two processes with equal fingerprints compute the
// same bits for the same ids, and rows with another fingerprint are never used. The engine decides what goes into
// it (weights, hyperparameters, tokenizer, template, the type and layout of keys and values, the version of the
// numerics); this file knows names and bytes only. Fingerprints are values;
// a builder is for one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/sha256.h"

namespace ibid {

struct Fingerprint {
  Sha256Digest bytes{};
  // The version of the numerics, which the bytes cover as well, in plain: a file of another version can be named.
  uint32_t numerics_version = 0;
  bool operator==(const Fingerprint&) const = default;
};

// The SHA-256 of all fields in the order in which they were added. Names and values are stored with their lengths,
// so that no two different lists of fields hash the same bytes. Throws std::bad_alloc from its constructor alone.
class FingerprintBuilder {
 public:
  FingerprintBuilder& add(std::string_view name, std::span<const std::byte> value);
  FingerprintBuilder& add(std::string_view name, std::string_view value);
  FingerprintBuilder& add(std::string_view name, const char* value) { return add(name, std::string_view(value)); }
  FingerprintBuilder& add(std::string_view name, uint64_t value);
  // The fingerprint; the builder is empty afterwards.
  Fingerprint finish(uint32_t numerics_version = 0) { return {hash_.finish(), numerics_version}; }

 private:
  Sha256 hash_;
};

}  // namespace ibid
