#include "tokenizer/loading/json_pipeline.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/json_members.h"
#include "base/text.h"
#include "tokenizer/models/piece_model.h"

namespace ibid {
namespace {

std::optional<SplitBehavior> behavior_of(const Json& step) {
  constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Isolated", SplitBehavior::kIsolated},
      {"Removed", SplitBehavior::kRemoved},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  const std::string name = json_text(step, "behavior").value_or("Isolated");
  for (const auto& [known, behavior] : kNames) {
    if (name == known) return behavior;
  }
  return std::nullopt;
}

Status read_byte_level_pretokenizer(const JsonSource& source, const Json& root, JsonPipeline& out) {
  bool seen = false, steps_after = false, cuts = true;
  for (const Json* step : json_steps(member(root, "pre_tokenizer"), "pretokenizers")) {
    const size_t n_before = out.split.size();
    const bool after_byte_level = seen;
    if (json_type(*step) == "ByteLevel") {
      seen = true;
      if (json_flag(*step, "add_prefix_space", true)) {
        // After other steps, `tokenizers` would add the space before each piece that these steps make, which is not
        // supported.
        if (!out.split.empty() || after_byte_level)
          return source.unsupported("add_prefix_space of ByteLevel after other steps");
        out.rewriter = {{.kind = NormalizerStep::Kind::kPrepend, .to = " ", .unless_there = true}};
      }
      cuts = json_flag(*step, "use_regex", true);
      if (cuts) out.split.push_back({"ByteLevel"});
    } else {
      TRY(add_split_steps(source, *step, out.split));
    }
    steps_after |= after_byte_level && out.split.size() > n_before;
  }
  // A step after ByteLevel is applied to text in the byte alphabet. This is supported only for known families in which
  // ByteLevel splits.
  if (steps_after && (!cuts || find_pretokenizer_by_steps(out.split) == nullptr)) {
    return source.unsupported("the pre-tokenizer " + in_quotes(out.split.back().pattern) + " after ByteLevel");
  }
  return {};
}

// Reads {"SpecialToken": {"id": "<s>"}} and appends the ids that special_tokens["<s>"] lists.
Status add_special(const JsonSource& source, const Json& processor, const Json& special, std::vector<int64_t>& out) {
  const std::string name = json_text(special, "id").value_or("");
  const Json* table = member(processor, "special_tokens");
  const Json* entry = table == nullptr ? nullptr : member(*table, name);
  const Json* ids = entry == nullptr ? nullptr : member(*entry, "ids");
  if (ids == nullptr || !ids->is_array()) {
    return source.error(ErrorCode::kMissingKey, "post_processor names " + in_quotes(name) + " without its ids");
  }
  for (const Json& id : *ids) out.push_back(id.is_number_integer() ? id.get<int64_t>() : -1);
  return {};
}

Status read_template(const JsonSource& source, const Json& processor, JsonPipeline& out) {
  const Json* single = member(processor, "single");
  if (single == nullptr || !single->is_array()) return source.unsupported("a TemplateProcessing without \"single\"");
  bool text_seen = false;
  for (const Json& piece : *single) {
    if (member(piece, "Sequence") != nullptr && !text_seen) {
      text_seen = true;
    } else if (const Json* special = member(piece, "SpecialToken")) {
      TRY(add_special(source, processor, *special, text_seen ? out.suffix : out.prefix));
    } else {
      return source.unsupported("the TemplateProcessing of post_processor");
    }
  }
  if (!text_seen) return source.unsupported("a TemplateProcessing without the text");
  return {};
}

// Reads a token and its id from "cls": ["<s>", 0], or from another key.
Status add_around(const JsonSource& source, const Json& processor, const char* key, std::vector<int64_t>& out) {
  const Json* pair = member(processor, key);
  if (pair == nullptr || !pair->is_array() || pair->size() != 2 || !(*pair)[1].is_number_integer()) {
    return source.error(ErrorCode::kMissingKey,
                        std::string("post_processor.") + key + " is not a pair of a text and an id");
  }
  out.push_back((*pair)[1].get<int64_t>());
  return {};
}

Status read_post_processor(const JsonSource& source, const Json& root, JsonPipeline& out) {
  bool template_seen = false;
  for (const Json* step : json_steps(member(root, "post_processor"), "processors")) {
    const std::string type = json_type(*step);
    if (type == "ByteLevel") continue;  // skip: as a post-processor, ByteLevel only changes offsets
    if (type == "RobertaProcessing" || type == "BertProcessing") {
      TRY(add_around(source, *step, "cls", out.prefix));
      TRY(add_around(source, *step, "sep", out.suffix));
      continue;
    }
    if (type != "TemplateProcessing" || template_seen)
      return source.unsupported("the post_processor " + in_quotes(type));
    template_seen = true;
    TRY(read_template(source, *step, out));
  }
  return {};
}

// Limits the factor by which all steps together can lengthen a text: a chain of steps that each lengthen it could turn
// one letter into a text larger than any memory.
Status check_growth(const JsonSource& source, const JsonPipeline& pipeline) {
  constexpr double kMost = 4096;
  const auto check = [&source](double growth, const char* what) {
    return growth <= kMost ? Status()
                           : source.error(ErrorCode::kLimitExceeded, std::string(what) + " may make a text more than " +
                                                                         std::to_string(static_cast<int>(kMost)) +
                                                                         " times as long");
  };
  const auto factor = [](size_t to, size_t from) {
    return std::max(1.0, static_cast<double>(to) / static_cast<double>(std::max<size_t>(from, 1)));
  };
  double growth = 1;
  for (const auto* steps : {&pipeline.normalizer, &pipeline.rewriter}) {
    for (const NormalizerStep& step : *steps) growth *= factor(step.to.size(), step.from.size());
  }
  TRY(check(growth, "the normalizer"));
  double shown = 1;
  for (const auto& [from, to] : pipeline.shown_replacements) shown *= factor(to.size(), from.size());
  return check(shown, "the decoder");
}

}  // namespace

std::optional<std::string> json_text(const Json& object, std::string_view key) {
  const std::string* text = text_member(object, key);
  return text == nullptr ? std::nullopt : std::optional(*text);
}

bool json_flag(const Json& object, std::string_view key, bool otherwise) {
  const Json* flag = member(object, key);
  return flag != nullptr && flag->is_boolean() ? flag->get<bool>() : otherwise;
}

std::vector<const Json*> json_steps(const Json* component, const char* list_key) {
  std::vector<const Json*> out, todo;
  if (component != nullptr) todo.push_back(component);
  while (!todo.empty()) {
    const Json& step = *todo.back();
    todo.pop_back();
    const Json* list = json_type(step) == "Sequence" ? member(step, list_key) : nullptr;
    if (list == nullptr || !list->is_array()) {
      out.push_back(&step);
      continue;
    }
    for (size_t i = list->size(); i-- > 0;) todo.push_back(&(*list)[i]);
  }
  return out;
}

std::string json_type(const Json& component) { return json_text(component, "type").value_or("?"); }

std::optional<std::string> pattern_text(const Json& step, std::string_view key) {
  const Json* pattern = member(step, "pattern");
  return pattern == nullptr ? std::nullopt : json_text(*pattern, key);
}

std::string canonical_pattern(std::string_view pattern) {
  std::string out;
  for (const char c : pattern) {
    if (c == '\r') {
      out += "\\r";
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

std::string escaped_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\.+*?()|[]{}^$-&").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return canonical_pattern(out);
}

Status add_split_steps(const JsonSource& source, const Json& step, std::vector<SplitStep>& out) {
  const std::string type = json_type(step);
  const std::optional<SplitBehavior> behavior = behavior_of(step);
  if (!behavior) {
    return source.unsupported("the behavior " + in_quotes(json_text(step, "behavior").value_or("?")) + " of " + type);
  }
  if (type == "Split") {
    const std::optional<std::string> text = pattern_text(step, "String"), regex = pattern_text(step, "Regex");
    if (!regex && (!text || text->empty())) return source.unsupported("a Split without a pattern");
    std::string pattern = regex ? canonical_pattern(*regex) : escaped_text(*text);
    if (is_step_name(pattern)) pattern = "(?:" + pattern + ")";
    out.push_back({pattern, *behavior, json_flag(step, "invert", false)});
  } else if (type == "Digits") {
    out.push_back({json_flag(step, "individual_digits", false) ? "Digits:individual" : "Digits:contiguous"});
  } else if (type == "Punctuation") {
    const bool runs = *behavior == SplitBehavior::kContiguous;
    out.push_back(runs ? SplitStep{"Punctuation:contiguous"} : SplitStep{"Punctuation:isolated", *behavior});
  } else if (type == "Whitespace") {
    out.push_back({"Whitespace", SplitBehavior::kRemoved, true});
  } else if (type == "WhitespaceSplit") {
    out.push_back({"\\s", SplitBehavior::kRemoved});
  } else if (type == "BertPreTokenizer") {
    out.push_back({"\\s", SplitBehavior::kRemoved});
    out.push_back({"Punctuation:isolated"});
  } else if (type == "CharDelimiterSplit" && !json_text(step, "delimiter").value_or("").empty()) {
    out.push_back({escaped_text(*json_text(step, "delimiter")), SplitBehavior::kRemoved});
  } else {
    return source.unsupported("the pre-tokenizer " + in_quotes(type));
  }
  return {};
}

Result<JsonPipeline> read_pipeline(const JsonSource& source, const Json& root) {
  JsonPipeline out;
  TRY_ASSIGN(out.normalizer, read_normalizer(source, root));
  TRY(read_post_processor(source, root, out));
  for (const Json* step : json_steps(member(root, "pre_tokenizer"), "pretokenizers")) {
    out.byte_level |= json_type(*step) == "ByteLevel";
  }
  if (!out.byte_level) {
    TRY(read_piece_pretokenizer(source, root, out));
    TRY(read_piece_decoder(source, root, out));
    TRY(check_growth(source, out));
    return out;
  }
  TRY(read_byte_level_pretokenizer(source, root, out));
  TRY(check_growth(source, out));
  const std::vector<const Json*> decoders = json_steps(member(root, "decoder"), "decoders");
  if (decoders.size() == 1 && json_type(*decoders[0]) == "ByteLevel") return out;
  if (decoders.empty()) return source.unsupported("a tokenizer without a decoder");
  return source.unsupported("the decoder " + in_quotes(json_type(*decoders[0])));
}

// --- Normalizers of tokenizer.json, and the components of tokenizers that are not byte-level.

namespace {

using Kind = NormalizerStep::Kind;

// The characters that StripAccents removes: the marks of Unicode 9.0.
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

// Returns nullopt if `text` is not base64 (RFC 4648).
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
                      "normalizer.precompiled_charsmap is damaged, expected base64 of a double array and its texts");
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

Status read_metaspace(const JsonSource& source, const Json& step, bool after_words, JsonPipeline& out) {
  const std::string scheme =
      json_text(step, "prepend_scheme").value_or(json_flag(step, "add_prefix_space", true) ? "always" : "never");
  const bool split = json_flag(step, "split", true);
  if (json_text(step, "replacement") != kSpaceMark) return source.unsupported("a replacement of Metaspace");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    return source.unsupported("the prepend_scheme " + in_quotes(scheme));
  }
  if (split) out.cut = PieceCut::kSpaceMarks;
  const std::string mark(kSpaceMark);
  if (after_words) {
    if (scheme != "always" || !split) return source.unsupported("this Metaspace after WhitespaceSplit");
    out.rewriter = {{.kind = Kind::kWords, .to = mark}};
    return {};
  }
  out.rewriter = {{.kind = Kind::kReplace, .from = " ", .to = mark}};
  if (scheme == "never") return {};
  out.rewriter.push_back({.kind = Kind::kPrepend, .to = mark, .first_only = scheme == "first", .unless_there = true});
  return {};
}

// True if the member `key` is the number `wanted`; a missing member counts as 0.
bool is_number(const Json& object, std::string_view key, int64_t wanted) {
  const Json* number = member(object, key);
  return number == nullptr ? wanted == 0 : number->is_number_integer() && *number == wanted;
}

// True if the normalizer leaves no spaces in a text, so that a Split at spaces would split nothing.
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
  for (const Json* step : json_steps(member(root, "normalizer"), "normalizers")) {
    if (json_type(*step) == "Sequence") continue;  // a Sequence without steps does nothing
    TRY_ASSIGN(NormalizerStep read, read_step(source, *step));
    out.push_back(std::move(read));
  }
  return out;
}

Status read_piece_pretokenizer(const JsonSource& source, const Json& root, JsonPipeline& out) {
  bool words = false, marks = false;
  const std::vector<const Json*> steps = json_steps(member(root, "pre_tokenizer"), "pretokenizers");
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string type = json_type(*steps[i]);
    const bool marks_follow = i + 1 < steps.size() && json_type(*steps[i + 1]) == "Metaspace";
    if (type == "Metaspace") {
      // After other steps, Metaspace would rewrite each piece that these steps make, which is not supported.
      if (marks || !out.split.empty()) return source.unsupported("Metaspace after other steps");
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
  // Steps after Metaspace apply to its output. If Metaspace splits, they apply to each piece, so its split becomes the
  // first step.
  if (!out.split.empty() && out.cut == PieceCut::kSpaceMarks) {
    out.split.insert(out.split.begin(), {std::string(kSpaceMark), SplitBehavior::kMergedWithNext});
  }
  return {};
}

Status read_piece_decoder(const JsonSource& source, const Json& root, JsonPipeline& out) {
  const Json* decoder = member(root, "decoder");
  if (decoder == nullptr) return source.unsupported("a tokenizer without a decoder");
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
