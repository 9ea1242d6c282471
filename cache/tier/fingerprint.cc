#include "cache/tier/fingerprint.h"

namespace ibid {

namespace {

void add_sized(Sha256& hash, std::span<const std::byte> bytes) {
  const uint64_t size = bytes.size();
  hash.update(std::as_bytes(std::span(&size, 1)));
  hash.update(bytes);
}

}  // namespace

FingerprintBuilder& FingerprintBuilder::add(std::string_view name, std::span<const std::byte> value) {
  add_sized(hash_, std::as_bytes(std::span(name)));
  add_sized(hash_, value);
  return *this;
}

FingerprintBuilder& FingerprintBuilder::add(std::string_view name, std::string_view value) {
  return add(name, std::as_bytes(std::span(value)));
}

FingerprintBuilder& FingerprintBuilder::add(std::string_view name, uint64_t value) {
  return add(name, std::as_bytes(std::span(&value, 1)));
}

}  // namespace ibid
