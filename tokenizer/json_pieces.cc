// What tokenizer.json says of normalizers, and around models whose tokens are written as text.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/json_pipeline.h"
#include "tokenizer/piece_model.h"
#include "weights/in_quotes.h"

namespace ibid {
namespace {

using Kind = NormalizerStep::Kind;

// {"String": " "} of a Replace or a Split.
std::optional<std::string> pattern_text(const Json& step, std::string_view key) {
  const Json* pattern = json_member(step, "pattern");
  return pattern == nullptr ? std::nullopt : json_text(*pattern, key);
}

Result<NormalizerStep> read_replace(const JsonSource& source, const Json& step) {
  const std::optional<std::string> from = pattern_text(step, "String"), regex = pattern_text(step, "Regex");
  const std::optional<std::string> to = json_text(step, "content");
  if (to && from && !from->empty()) return NormalizerStep{.kind = Kind::kReplace, .from = *from, .to = *to};
  if (to && regex == " {2,}") return NormalizerStep{.kind = Kind::kCollapse, .to = *to};
  return source.unsupported("a Replace of " + in_quotes(from ? *from : regex.value_or("?")));
}

// Nothing when `text` is no base64 (RFC 4648).
std::optional<std::string> base64_decode(std::string_view text) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string out;
  uint32_t bits = 0;
  int n_bits = 0;
  for (const char letter : text) {
    const size_t value = kLetters.find(letter);
    if (value == kLetters.npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    n_bits += 6;
    if (n_bits < 8) continue;
    n_bits -= 8;
    out += static_cast<char>(bits >> n_bits & 0xFF);
  }
  return out;
}

Result<NormalizerStep> read_charsmap(const JsonSource& source, const Json& step) {
  const std::optional<std::string> text = json_text(step, "precompiled_charsmap");
  const std::optional<std::string> bytes = text ? base64_decode(*text) : std::nullopt;
  const std::optional<Charsmap> charsmap = bytes ? Charsmap::parse(*bytes) : std::nullopt;
  if (charsmap) return NormalizerStep{.kind = Kind::kCharsmap, .charsmap = *charsmap};
  return source.error(ErrorCode::kBadVocab,
                      "normalizer.precompiled_charsmap is damaged, wanted base64 of a double array and its texts");
}

Result<NormalizerStep> read_step(const JsonSource& source, const Json& step) {
  const std::string type = json_type(step);
  if (type == "NFC") return NormalizerStep{.kind = Kind::kNfc};
  if (type == "NFKC") return NormalizerStep{.kind = Kind::kNfkc};
  if (type == "Lowercase") return NormalizerStep{.kind = Kind::kLowercase};
  if (type == "Replace") return read_replace(source, step);
  if (type == "Precompiled") return read_charsmap(source, step);
  if (type == "Prepend") {
    return NormalizerStep{.kind = Kind::kPrepend, .to = json_text(step, "prepend").value_or("")};
  }
  if (type == "Strip") {
    return NormalizerStep{.kind = Kind::kStrip,
                          .left = json_flag(step, "strip_left", true),
                          .right = json_flag(step, "strip_right", true)};
  }
  return source.unsupported("the normalizer " + in_quotes(type));
}

Status read_metaspace(const JsonSource& source, const Json& step, bool behind_words, JsonPipeline& out) {
  const std::string scheme = json_text(step, "prepend_scheme")
                                 .value_or(json_flag(step, "add_prefix_space", true) ? "always" : "never");
  const bool split = json_flag(step, "split", true);
  if (json_text(step, "replacement") != kSpaceMark) return source.unsupported("a replacement of Metaspace");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return source.unsupported("the prepend_scheme " + in_quotes(scheme));
  }
  if (split) out.cut = PieceCut::kSpaceMarks;
  const std::string mark(kSpaceMark);
  if (behind_words) {
    if (scheme != "always" || !split) return source.unsupported("such a Metaspace behind WhitespaceSplit");
    out.rewriter = {{.kind = Kind::kWords, .to = mark}};
    return {};
  }
  out.rewriter = {{.kind = Kind::kReplace, .from = " ", .to = mark}};
  if (scheme == "never") return {};
  out.rewriter.push_back(
      {.kind = Kind::kPrepend, .to = mark, .first_only = scheme == "first", .unless_there = true});
  return {};
}

// A Split at spaces cuts nothing where the normalizer leaves none.
bool leaves_no_spaces(const std::vector<NormalizerStep>& steps) {
  bool none = false;
  for (const NormalizerStep& step : steps) {
    if (step.kind == Kind::kReplace && step.from == " ") none = true;
    if (step.to.find(' ') != std::string::npos || step.kind == Kind::kNfkc) none = false;
  }
  return none;
}

}  // namespace

Result<std::vector<NormalizerStep>> read_normalizer(const JsonSource& source, const Json& root) {
  std::vector<NormalizerStep> out;
  for (const Json* step : json_steps(json_member(root, "normalizer"), "normalizers")) {
    if (json_type(*step) == "Sequence") continue;  // an empty one
    TRY_ASSIGN(NormalizerStep read, read_step(source, *step));
    out.push_back(std::move(read));
  }
  return out;
}

Status read_piece_pretokenizer(const JsonSource& source, const Json& root, JsonPipeline& out) {
  bool words = false, marks = false;
  for (const Json* step : json_steps(json_member(root, "pre_tokenizer"), "pretokenizers")) {
    const std::string type = json_type(*step);
    if (marks) return source.unsupported("the pre-tokenizer " + in_quotes(type) + " behind Metaspace");
    if (type == "Metaspace") {
      marks = true;
      TRY(read_metaspace(source, *step, words, out));
    } else if (type == "WhitespaceSplit" && !words) {
      words = true;
    } else if (type != "Split" || pattern_text(*step, "String") != " " || words || !leaves_no_spaces(out.normalizer)) {
      return source.unsupported("the pre-tokenizer " + in_quotes(type) + " without ByteLevel");
    }
  }
  if (words && !marks) return source.unsupported("WhitespaceSplit without Metaspace");
  return {};
}

Status read_piece_decoder(const JsonSource& source, const Json& root, JsonPipeline& out) {
  const Json* decoder = json_member(root, "decoder");
  if (decoder == nullptr) return source.unsupported("a missing decoder");
  bool fused = false;
  for (const Json* step : json_steps(decoder, "decoders")) {
    const std::string type = json_type(*step);
    const std::optional<std::string> from = pattern_text(*step, "String"), content = json_text(*step, "content");
    if (type == "Replace" && from && !from->empty() && content && !out.shown_bytes) {
      out.shown_replacements.emplace_back(*from, *content);
    } else if (type == "ByteFallback" && !fused) {
      out.shown_bytes = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Strip" && fused && content == " " && step->value("start", 0) == 1 &&
               step->value("stop", 0) == 0) {
      out.first_token = FirstToken::kWithoutOneSpace;
    } else if (type == "Metaspace" && json_text(*step, "replacement") == kSpaceMark && out.shown_replacements.empty()) {
      out.shown_replacements.emplace_back(std::string(kSpaceMark), " ");
      const bool prepends = json_text(*step, "prepend_scheme") != "never" && json_flag(*step, "add_prefix_space", true);
      if (prepends) out.first_token = FirstToken::kWithoutSpaces;
    } else {
      return source.unsupported("the decoder " + in_quotes(type));
    }
  }
  return {};
}

}  // namespace ibid
