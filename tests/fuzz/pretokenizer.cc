// Pre-tokenization of a text, for every family by name; and each family's scanner compared with its regular expression.
#include "tokenizer/splitting/pretokenizer.h"

#include <string>
#include <vector>

#include "base/check.h"
#include "tests/fuzz/script.h"
#include "tokenizer/splitting/pattern.h"
#include "tokenizer/splitting/staged_split.h"

namespace ibid::fuzz {

namespace {

constexpr std::string_view kNames[] = {"gpt-2",  "smollm",      "llama3", "qwen2",   "qwen35",         "gpt-4o",
                                       "tekken", "deepseek-v3", "falcon", "default", "deepseek-coder", "deepseek-llm",
                                       "jais-2", "youtu",       "bloom",  "viking",  "chameleon"};

// Splits `text` and checks that no piece is empty. Pieces that were found without reaching the end of the text must not
// depend on the text that follows.
std::vector<Piece> pieces_of(const PretokenizerFamily& family, const StagedSplit* split, std::string_view text) {
  std::vector<Piece> pieces;
  ScanMemory memory;
  for (size_t at = 0; at < text.size();) {
    const Piece piece = family.scan != nullptr ? family.scan(text, at) : split->scan(text, at, memory);
    CHECK(piece.end > at && piece.end <= text.size());
    at = piece.end;
    pieces.push_back(piece);
  }
  return pieces;
}

}  // namespace

void pretokenizer(Input input) {
  struct Row {
    const PretokenizerFamily* family;
    std::optional<StagedSplit> split;
    std::optional<Pattern> pattern;
  };
  static const std::vector<Row>& rows = *[] {
    auto* all = new std::vector<Row>;
    for (const std::string_view name : kNames) {
      const PretokenizerFamily* family = find_pretokenizer_by_gguf_name(name);
      CHECK(family != nullptr) << name;
      Row& row = all->emplace_back(Row{family, {}, {}});
      if (family->scan == nullptr) row.split = StagedSplit::create(split_steps(family->signature)).value();
      const bool one_pattern =
          family->signature.find('\n') == std::string_view::npos && family->signature != "ByteLevel";
      if (family->scan != nullptr && one_pattern) row.pattern.emplace(family->signature);
    }
    return all;
  }();
  Script script(input);
  const Row& row = script.pick(rows);
  const size_t n_shown = script.byte();
  const std::string_view text = text_of(script.rest());
  const std::vector<Piece> pieces = pieces_of(*row.family, row.split ? &*row.split : nullptr, text);

  // Split the same text without its end: pieces that are final there must be the same in the whole text.
  const std::string_view shown = text.substr(0, std::min(n_shown, text.size()));
  const std::vector<Piece> early = pieces_of(*row.family, row.split ? &*row.split : nullptr, shown);
  for (size_t i = 0; i < early.size() && !early[i].touched_end; ++i) {
    CHECK(i < pieces.size() && early[i].end == pieces[i].end) << row.family->name << ": a final piece changed";
  }
  if (!row.pattern) return;
  size_t begin = 0;
  Pattern::Memory memory;
  for (const Piece& piece : pieces) {
    bool touched = false;
    const auto end = row.pattern->match({text, 0, text.size(), text.size()}, begin, memory, touched);
    CHECK(!end || *end == piece.end) << row.family->name << ": the scanner and the pattern differ at " << begin;
    begin = piece.end;
  }
}

}  // namespace ibid::fuzz
