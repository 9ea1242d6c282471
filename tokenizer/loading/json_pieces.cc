// What tokenizer.json says of normalizers, and around models whose tokens are written as text.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_limits.h"
#include "base/text.h"
#include "tokenizer/loading/json_pipeline.h"
#include "tokenizer/models/piece_model.h"

namespace ibid {
namespace {

using Kind = NormalizerStep::Kind;

// The characters that StripAccents takes away: marks, as of Unicode 9.0.
constexpr std::string_view kAccents =
    "[\\p{M}\u1cf2-\u1cf3&&[^"
    "\u07fd\u0897-\u089f\u08ca-\u08d3\u09fe\u0afa-\u0aff\u0b55\u0c04\u0c3c\u0cf3\u0d00\u0d3b-\u0d3c"
    "\u0d81\u0eba\u0ece\u1715\u180f\u1abf-\u1ace\u1cf7\u1df6-\u1dfa\ua82c\ua8ff\U00010d24-\U00010d27"
    "\U00010d69-\U00010d6d\U00010eab-\U00010eac\U00010efc-\U00010eff\U00010f46-\U00010f50"
    "\U00010f82-\U00010f85\U00011070\U00011073-\U00011074\U000110c2\U00011145-\U00011146\U000111c9"
    "\U000111ce-\U000111cf\U00011241\U0001133b\U000113b8-\U000113c0\U000113c2\U000113c5"
    "\U000113c7-\U000113ca\U000113cc-\U000113d0\U000113d2\U000113e1-\U000113e2\U0001145e"
    "\U0001182c-\U0001183a\U00011930-\U00011935\U00011937-\U00011938\U0001193b-\U0001193e\U00011940"
    "\U00011942-\U00011943\U000119d1-\U000119d7\U000119da-\U000119e0\U000119e4\U00011a01-\U00011a0a"
    "\U00011a33-\U00011a39\U00011a3b-\U00011a3e\U00011a47\U00011a51-\U00011a5b\U00011a8a-\U00011a99"
    "\U00011d31-\U00011d36\U00011d3a\U00011d3c-\U00011d3d\U00011d3f-\U00011d45\U00011d47"
    "\U00011d8a-\U00011d8e\U00011d90-\U00011d91\U00011d93-\U00011d97\U00011ef3-\U00011ef6"
    "\U00011f00-\U00011f01\U00011f03\U00011f34-\U00011f3a\U00011f3e-\U00011f42\U00011f5a\U00013440"
    "\U00013447-\U00013455\U0001611e-\U0001612f\U00016f4f\U00016f7f-\U00016f87\U00016fe4"
    "\U00016ff0-\U00016ff1\U0001cf00-\U0001cf2d\U0001cf30-\U0001cf46\U0001e08f\U0001e130-\U0001e136"
    "\U0001e2ae\U0001e2ec-\U0001e2ef\U0001e4ec-\U0001e4ef\U0001e5ee-\U0001e5ef"
    "]]";

Result<NormalizerStep> read_replace(const JsonSource& source, const Json& step) {
  const std::optional<std::string> from = pattern_text(step, "String"), regex = pattern_text(step, "Regex");
  const std::optional<std::string> to = json_text(step, "content");
  if (to && from && !from->empty()) return NormalizerStep{.kind = Kind::kReplace, .from = *from, .to = *to};
  if (to && regex == " {2,}") return NormalizerStep{.kind = Kind::kCollapse, .to = *to};
  if (to && regex) {
    Result<Pattern> pattern = Pattern::parse(canonical_pattern(*regex));
    const std::string named = "a Replace of " + in_quotes(*regex);
    if (!pattern.ok()) return source.unsupported(named + " with " + pattern.status().message());
    if (pattern->may_match_nothing() || pattern->looks_behind()) {
      return source.unsupported(named + ", which may match nothing or looks behind,");
    }
    return NormalizerStep{.kind = Kind::kReplacePattern, .to = *to, .pattern = std::move(pattern).value()};
  }
  return source.unsupported("a Replace of " + in_quotes(from.value_or("?")));
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
  if (type == "NFD") return NormalizerStep{.kind = Kind::kNfd};
  if (type == "NFKD") return NormalizerStep{.kind = Kind::kNfkd};
  if (type == "StripAccents") return NormalizerStep{.kind = Kind::kReplacePattern, .pattern = Pattern(kAccents)};
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

// Whether a member is this number; 0: or is missing.
bool is_number(const Json& object, std::string_view key, int64_t wanted) {
  const Json* member = json_member(object, key);
  return member == nullptr ? wanted == 0 : member->is_number_integer() && *member == wanted;
}

// A Split at spaces cuts nothing where the normalizer leaves none.
bool leaves_no_spaces(const std::vector<NormalizerStep>& steps) {
  bool none = false;
  for (const NormalizerStep& step : steps) {
    if (step.kind == Kind::kReplace && step.from == " ") none = true;
    if (step.to.find(' ') != std::string::npos || step.kind == Kind::kNfkc || step.kind == Kind::kNfkd) none = false;
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
  const std::vector<const Json*> steps = json_steps(json_member(root, "pre_tokenizer"), "pretokenizers");
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string type = json_type(*steps[i]);
    const bool marks_follow = i + 1 < steps.size() && json_type(*steps[i + 1]) == "Metaspace";
    if (type == "Metaspace") {
      // It rewrites each piece of what stands before it.
      if (marks || !out.split.empty()) return source.unsupported("Metaspace behind other steps");
      marks = true;
      TRY(read_metaspace(source, *steps[i], words, out));
    } else if (type == "WhitespaceSplit" && i == 0 && marks_follow) {
      words = true;
    } else if (type == "Split" && pattern_text(*steps[i], "String") == " " && i == 0 &&
               leaves_no_spaces(out.normalizer)) {
      continue;
    } else {
      TRY(add_split_steps(source, *steps[i], out.split));
    }
  }
  // A step behind Metaspace sees what Metaspace wrote, in pieces if that splits.
  if (!out.split.empty() && out.cut == PieceCut::kSpaceMarks) {
    out.split.insert(out.split.begin(), {std::string(kSpaceMark), SplitBehavior::kMergedWithNext});
  }
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
    } else if (type == "Strip" && fused && content == " " && is_number(*step, "start", 1) &&
               is_number(*step, "stop", 0)) {
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
