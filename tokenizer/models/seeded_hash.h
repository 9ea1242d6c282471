// Hashes of vocabularies and merges, seeded once per process: neither a model file nor a text can be written
// so that its entries collide. Values differ from run to run and must not be stored.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace ibid {

struct HashSeed {
  uint64_t a, b;
};
const HashSeed& process_hash_seed();

inline uint64_t hash_mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_u64(uint64_t value, const HashSeed& seed) { return hash_mix(value ^ seed.a, seed.b); }

inline uint64_t hash_bytes(std::string_view bytes, const HashSeed& seed) {
  const auto load = [](const char* at, size_t n) {
    uint64_t out = 0;
    std::memcpy(&out, at, n);
    return out;
  };
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t state = seed.a ^ n;
  for (; n > 16; p += 16, n -= 16) state = hash_mix(load(p, 8) ^ seed.b, load(p + 8, 8) ^ state);
  uint64_t first = 0, last = 0;
  if (n >= 8) {
    first = load(p, 8);
    last = load(p + n - 8, 8);
  } else if (n >= 4) {
    first = load(p, 4);
    last = load(p + n - 4, 4);
  } else if (n > 0) {
    const auto byte = [p](size_t i) { return static_cast<uint64_t>(static_cast<unsigned char>(p[i])); };
    first = byte(0) << 16 | byte(n / 2) << 8 | byte(n - 1);
  }
  return hash_mix(hash_mix(first ^ seed.b, last ^ state), seed.a);
}

}  // namespace ibid
