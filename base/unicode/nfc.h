// Unicode normal forms (UAX 15) as Hugging Face `tokenizers` computes them: characters that are newer than Unicode 9.0
// neither decompose nor reorder. Maps positions back to the original text. Thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/unicode/text_changes.h"

namespace ibid {

enum class NormalForm {
  kC,
  kD,   // decomposed
  kKc,  // compatibility characters (ligatures, full width, superscripts) are replaced
  kKd,
};

class NfcText {
 public:
  // Normalises `raw`. Bytes that are not UTF-8 stay unchanged and compose with nothing. `raw` must outlive the object:
  // text that is already normalised is not copied.
  explicit NfcText(std::string_view raw, NormalForm form = NormalForm::kC);

  std::string_view text() const { return changes_.empty() ? raw_ : std::string_view(normal_); }

  // The position in the raw text that corresponds to a position in text(); nullopt inside a changed part.
  std::optional<size_t> raw_position(size_t position) const { return changes_.raw_position(position); }
  // The first position in text() that does not come from raw[0, raw_position).
  size_t position_of(size_t raw_position) const { return changes_.position_of(raw_position); }

 private:
  std::string_view raw_;
  std::string normal_;  // the normalized text; used if it differs from raw_
  TextChanges changes_;
};

// Returns the length of the prefix of `raw` whose normal form no append can change. The prefix ends before the last
// character that does not compose with preceding ones.
size_t nfc_stable_prefix(std::string_view raw, NormalForm form = NormalForm::kC);

}  // namespace ibid
