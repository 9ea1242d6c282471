// UTF-8 and the normal forms, on raw bytes.
#include <string>

#include "base/check.h"
#include "base/unicode/nfc.h"
#include "base/utf8.h"
#include "tests/fuzz/script.h"

namespace ibid::fuzz {

namespace {

void check_utf8(std::string_view text) {
  std::string rebuilt;
  bool valid = true;
  for (size_t at = 0; at < text.size();) {
    const DecodedChar c = utf8_decode(text, at);
    CHECK(c.length >= 1 && at + c.length <= text.size());
    if (c.valid)
      utf8_append(rebuilt, c.code_point);
    else
      rebuilt += "\xEF\xBF\xBD";
    valid &= c.valid;
    at += c.length;
  }
  CHECK_EQ(utf8_is_valid(text), valid);
  CHECK(utf8_sanitize(text) == rebuilt);
  CHECK(utf8_is_valid(rebuilt) && (!valid || rebuilt == text));
  CHECK_LE(utf8_incomplete_tail(text), std::min<size_t>(text.size(), 3));
}

void check_normal_form(std::string_view text, NormalForm form) {
  const NfcText normal(text, form);
  CHECK(NfcText(normal.text(), form).text() == normal.text()) << "normalization is not idempotent";
  for (size_t at = 0; at <= normal.text().size(); ++at) {
    const auto raw = normal.raw_position(at);
    CHECK(!raw || *raw <= text.size());
  }
  const size_t stable = nfc_stable_prefix(text, form);
  CHECK_LE(stable, text.size());
  const NfcText prefix(text.substr(0, stable), form);
  CHECK(normal.text().starts_with(prefix.text())) << "the stable prefix is not a prefix of the normal form";
  CHECK_LE(normal.position_of(stable), normal.text().size());
}

}  // namespace

void unicode(Input input) {
  const std::string_view text = text_of(input);
  check_utf8(text);
  check_normal_form(text, NormalForm::kC);
  check_normal_form(text, NormalForm::kKc);
}

}  // namespace ibid::fuzz
