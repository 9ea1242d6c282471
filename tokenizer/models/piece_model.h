// PieceModel: encodes a part of a text, for tokenizers whose tokens are written as text and not in a byte alphabet, as
// SentencePiece's are. The vocabulary has the texts as written in the file, with U+2581 for a space. Immutable and
// thread-safe.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ibid/token.h"
#include "tokenizer/models/vocabulary.h"
#include "tokenizer/splitting/pretokenizer.h"

namespace ibid {

// The space mark of SentencePiece, U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

class PieceModel {
 public:
  explicit PieceModel(Vocabulary written) : written_(std::move(written)) {}
  virtual ~PieceModel() = default;
  PieceModel(const PieceModel&) = delete;
  PieceModel& operator=(const PieceModel&) = delete;

  // Appends the tokens of a whole text. Each byte that is not UTF-8 counts as a character without a token.
  virtual void encode(std::string_view text, Tokens& out) const = 0;

  // Returns the part that starts at text[begin], where the previous part ended. encode() of the part alone gives the
  // same tokens as within the whole text. REQUIRES: begin < text.size().
  virtual Piece scan(std::string_view text, size_t begin) const = 0;
  // Appends the tokens of a part of a text that scan() returned.
  virtual void encode_part(std::string_view text, Tokens& out) const { encode(text, out); }

  const Vocabulary& written() const { return written_; }

 private:
  Vocabulary written_;
};

// --- CodePointMap and CodePointPairs: properties of characters and of adjacent pairs of characters, found in constant
// time. Filled while loading, constant and thread-safe after that.

// Maps some characters to numbers, and all others to kNoToken.
class CodePointMap {
 public:
  // All functions REQUIRE: code_point <= U+10FFFF.
  TokenId find(uint32_t code_point) const {
    const uint16_t page = pages_[code_point >> 8];
    return page == 0 ? kNoToken : values_[(size_t{page} - 1) << 8 | (code_point & 0xFF)];
  }
  void set(uint32_t code_point, TokenId value) {
    uint16_t& page = pages_[code_point >> 8];
    if (page == 0) {
      values_.resize(values_.size() + 256, kNoToken);
      page = static_cast<uint16_t>(values_.size() >> 8);
    }
    values_[(size_t{page} - 1) << 8 | (code_point & 0xFF)] = value;
  }

 private:
  // Number of each page of 256 characters, from 1 on; 0: no character of the page has a number.
  std::array<uint16_t, 0x1100> pages_{};
  std::vector<TokenId> values_;
};

// A set of ordered pairs of characters.
class CodePointPairs {
 public:
  CodePointPairs() : slots_(64, kNone), seed_(process_hash_seed()) {}

  bool contains(uint32_t first, uint32_t second) const {
    if ((first | second) < kDirect) return direct_[first * kDirect + second];
    return slots_[probe(key(first, second))] != kNone;
  }
  void add(uint32_t first, uint32_t second) {
    if ((first | second) < kDirect) {
      direct_[first * kDirect + second] = true;
      return;
    }
    if (2 * (n_ + 1) > slots_.size()) grow();
    uint64_t& slot = slots_[probe(key(first, second))];
    n_ += slot == kNone ? 1 : 0;
    slot = key(first, second);
  }

 private:
  static constexpr uint32_t kDirect = 128;
  static constexpr uint64_t kNone = UINT64_MAX;

  static uint64_t key(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }
  size_t probe(uint64_t wanted) const {
    const size_t mask = slots_.size() - 1;
    size_t i = hash_u64(wanted, seed_) & mask;
    while (slots_[i] != kNone && slots_[i] != wanted) i = (i + 1) & mask;
    return i;
  }
  void grow() {
    std::vector<uint64_t> old(slots_.size() * 2, kNone);
    old.swap(slots_);
    for (const uint64_t pair : old) {
      if (pair != kNone) slots_[probe(pair)] = pair;
    }
  }

  std::bitset<size_t{kDirect} * kDirect> direct_;
  std::vector<uint64_t> slots_;  // open addressing; the size is a power of two, at most half of the slots are used
  size_t n_ = 0;
  HashSeed seed_;
};

}  // namespace ibid
