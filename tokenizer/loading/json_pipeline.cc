#include "tokenizer/loading/json_pipeline.h"

#include <algorithm>
#include <utility>

#include "base/json_limits.h"
#include "base/text.h"

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
  bool seen = false, steps_behind = false, cuts = true;
  for (const Json* step : json_steps(json_member(root, "pre_tokenizer"), "pretokenizers")) {
    const size_t n_before = out.split.size();
    const bool behind = seen;
    if (json_type(*step) == "ByteLevel") {
      seen = true;
      if (json_flag(*step, "add_prefix_space", true)) {
        // Behind other steps the space would be put in front of every piece of theirs.
        if (!out.split.empty() || behind) return source.unsupported("add_prefix_space of ByteLevel behind other steps");
        out.rewriter = {{.kind = NormalizerStep::Kind::kPrepend, .to = " ", .unless_there = true}};
      }
      cuts = json_flag(*step, "use_regex", true);
      if (cuts) out.split.push_back({"ByteLevel"});
    } else {
      TRY(add_split_steps(source, *step, out.split));
    }
    steps_behind |= behind && out.split.size() > n_before;
  }
  // Behind ByteLevel a step sees the byte alphabet; one family, whose ByteLevel cuts, is known to do that.
  if (steps_behind && (!cuts || find_pretokenizer_by_steps(out.split) == nullptr)) {
    return source.unsupported("the pre-tokenizer " + in_quotes(out.split.back().pattern) + " behind ByteLevel");
  }
  return {};
}

// {"SpecialToken": {"id": "<s>"}}: the ids that special_tokens["<s>"] lists.
Status add_special(const JsonSource& source, const Json& processor, const Json& special,
                   std::vector<int64_t>& out) {
  const std::string name = json_text(special, "id").value_or("");
  const Json* table = json_member(processor, "special_tokens");
  const Json* entry = table == nullptr ? nullptr : json_member(*table, name);
  const Json* ids = entry == nullptr ? nullptr : json_member(*entry, "ids");
  if (ids == nullptr || !ids->is_array()) {
    return source.error(ErrorCode::kMissingKey,
                        "post_processor names " + in_quotes(name) + " without its ids");
  }
  for (const Json& id : *ids) out.push_back(id.is_number_integer() ? id.get<int64_t>() : -1);
  return {};
}

Status read_template(const JsonSource& source, const Json& processor, JsonPipeline& out) {
  const Json* single = json_member(processor, "single");
  if (single == nullptr || !single->is_array())
    return source.unsupported("a TemplateProcessing without single");
  bool text_seen = false;
  for (const Json& piece : *single) {
    if (json_member(piece, "Sequence") != nullptr && !text_seen) {
      text_seen = true;
    } else if (const Json* special = json_member(piece, "SpecialToken")) {
      TRY(add_special(source, processor, *special, text_seen ? out.suffix : out.prefix));
    } else {
      return source.unsupported("the TemplateProcessing of post_processor");
    }
  }
  if (!text_seen) return source.unsupported("a TemplateProcessing without the text");
  return {};
}

// "cls": ["<s>", 0]
Status add_around(const JsonSource& source, const Json& processor, const char* key, std::vector<int64_t>& out) {
  const Json* pair = json_member(processor, key);
  if (pair == nullptr || !pair->is_array() || pair->size() != 2 || !(*pair)[1].is_number_integer()) {
    return source.error(ErrorCode::kMissingKey,
                        std::string("post_processor.") + key + " is no pair of a text and an id");
  }
  out.push_back((*pair)[1].get<int64_t>());
  return {};
}

Status read_post_processor(const JsonSource& source, const Json& root, JsonPipeline& out) {
  bool template_seen = false;
  for (const Json* step : json_steps(json_member(root, "post_processor"), "processors")) {
    const std::string type = json_type(*step);
    if (type == "ByteLevel") continue;  // it moves offsets only
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

// Steps that each make a text longer can be so many that no memory holds what becomes of one letter.
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

const Json* json_member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

std::optional<std::string> json_text(const Json& object, std::string_view key) {
  const Json* member = json_member(object, key);
  return member != nullptr && member->is_string() ? std::optional(member->get<std::string>()) : std::nullopt;
}

bool json_flag(const Json& object, std::string_view key, bool otherwise) {
  const Json* member = json_member(object, key);
  return member != nullptr && member->is_boolean() ? member->get<bool>() : otherwise;
}

std::vector<const Json*> json_steps(const Json* component, const char* list_key) {
  std::vector<const Json*> out, todo;
  if (component != nullptr) todo.push_back(component);
  while (!todo.empty()) {
    const Json& step = *todo.back();
    todo.pop_back();
    const Json* list = json_type(step) == "Sequence" ? json_member(step, list_key) : nullptr;
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
  const Json* pattern = json_member(step, "pattern");
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
  for (const Json* step : json_steps(json_member(root, "pre_tokenizer"), "pretokenizers")) {
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
  const std::vector<const Json*> decoders = json_steps(json_member(root, "decoder"), "decoders");
  if (decoders.size() == 1 && json_type(*decoders[0]) == "ByteLevel") return out;
  if (decoders.empty()) return source.unsupported("a missing decoder");
  return source.unsupported("the decoder " + in_quotes(json_type(*decoders[0])));
}

}  // namespace ibid
