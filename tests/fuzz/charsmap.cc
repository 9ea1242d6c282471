// SentencePiece's table of replacements (precompiled_charsmap) from raw bytes, applied to a text.
#include "tokenizer/normalizer.h"

#include <string>

#include "base/check.h"
#include "tests/fuzz/script.h"
#include "tokenizer/normalizer.h"

namespace ibid::fuzz {

void charsmap(Input input) {
  Script script(input);
  const std::string text = script.text(64);
  const std::string table(text_of(script.rest()));
  const std::optional<Charsmap> map = Charsmap::parse(table);
  if (!map) return;
  size_t at = 0;
  map->apply(text, [&](size_t begin, size_t end, std::string_view by) {
    CHECK(begin >= at && end > begin && end <= text.size());
    CHECK(by.empty() || by.find('\0') == by.npos);
    at = end;
  });
  CHECK_LE(map->stable_prefix(text), text.size());
  const Normalizer normalizer({{.kind = NormalizerStep::Kind::kCharsmap, .charsmap = *map}});
  const NormalizedText normal(normalizer, text, {});
  for (size_t i = 0; i <= normal.text().size(); ++i) {
    const auto raw = normal.raw_position(i);
    CHECK(!raw || *raw <= text.size());
  }
}

}  // namespace ibid::fuzz
