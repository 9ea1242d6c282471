// PieceModel: gives the ids of a stretch of text, for a tokenizer whose tokens are written as text and not in an
// alphabet of bytes, as SentencePiece's are. Its vocabulary holds the texts as they are written there, a space as
// U+2581. Immutable and thread-safe.
#pragma once

#include <string_view>
#include <utility>

#include "ibid/token.h"
#include "tokenizer/models/vocabulary.h"
#include "tokenizer/splitting/pretokenizer.h"

namespace ibid {

// The mark of a space in SentencePiece's texts, U+2581.
inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";

class PieceModel {
 public:
  explicit PieceModel(Vocabulary written) : written_(std::move(written)) {}
  virtual ~PieceModel() = default;
  PieceModel(const PieceModel&) = delete;
  PieceModel& operator=(const PieceModel&) = delete;

  // Appends the ids of a whole text. Bytes that are not UTF-8 count one by one as characters that no token has.
  virtual void encode(std::string_view text, Tokens& out) const = 0;

  // Finds the stretch that starts at text[begin], where the stretch before it ended. Its ids are what encode()
  // gives for it alone, whatever stands around it. REQUIRES: begin < text.size().
  virtual Piece scan(std::string_view text, size_t begin) const = 0;
  // As encode(), for a text that scan() found.
  virtual void encode_stretch(std::string_view text, Tokens& out) const { encode(text, out); }

  const Vocabulary& written() const { return written_; }

 private:
  Vocabulary written_;
};

}  // namespace ibid
