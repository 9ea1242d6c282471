// Normal forms (UAX 15) as Hugging Face `tokenizers` computes them, with a map back to the text they came from:
// characters younger than Unicode 9.0 neither decompose nor reorder. Thread-safe.
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
  kKc,  // compatibility characters (ligatures, full width, superscripts) become what they stand for
  kKd,
};

class NfcText {
 public:
  // Bytes that are not UTF-8 stay as they are and compose with nothing. `raw` must outlive the object:
  // text that is in normal form already is not copied.
  explicit NfcText(std::string_view raw, NormalForm form = NormalForm::kC);

  std::string_view text() const { return changes_.empty() ? raw_ : std::string_view(normal_); }

  // The place in the raw text that corresponds to a place in text(); nothing inside of what was changed.
  std::optional<size_t> raw_position(size_t position) const { return changes_.raw_position(position); }
  // The first place in text() that does not come from raw[0, raw_position).
  size_t position_of(size_t raw_position) const { return changes_.position_of(raw_position); }

 private:
  std::string_view raw_;
  std::string normal_;  // used from the first change on
  TextChanges changes_;
};

// How much of `raw` an append cannot change in normal form: up to the last character that does not compose
// with what stands before it.
size_t nfc_stable_prefix(std::string_view raw, NormalForm form = NormalForm::kC);

}  // namespace ibid
