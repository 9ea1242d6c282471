#include "tokenizer/json_pipeline.h"

#include "weights/in_quotes.h"

namespace ibid {
namespace {

// Line ends written as escapes: files differ in how they spell them.
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

Result<std::string> split_pattern(const JsonSource& source, const Json& split) {
  const Json* pattern = json_member(split, "pattern");
  const std::optional<std::string> regex = pattern == nullptr ? std::nullopt : json_text(*pattern, "Regex");
  if (!regex) return source.unsupported("a Split without a Regex");
  if (json_text(split, "behavior") != "Isolated" || json_flag(split, "invert", false)) {
    return source.unsupported("a Split whose behavior is not 'Isolated'");
  }
  return canonical_pattern(*regex);
}

Status read_byte_level_pretokenizer(const JsonSource& source, const Json& root, JsonPipeline& out) {
  std::string signature;
  bool byte_level = false, parts_behind = false;
  for (const Json* step : json_steps(json_member(root, "pre_tokenizer"), "pretokenizers")) {
    const std::string type = json_type(*step);
    std::string part;
    const bool behind = byte_level;
    if (type == "ByteLevel") {
      byte_level = true;
      if (json_flag(*step, "add_prefix_space", true))
        return source.unsupported("add_prefix_space of ByteLevel");
      if (json_flag(*step, "use_regex", true)) part = "ByteLevel";
    } else if (type == "Digits") {
      part = json_flag(*step, "individual_digits", false) ? "Digits:individual" : "Digits:contiguous";
    } else if (type == "Punctuation") {
      const std::string behavior = json_text(*step, "behavior").value_or("Isolated");
      if (behavior != "Isolated" && behavior != "Contiguous") {
        return source.unsupported("the behavior " + in_quotes(behavior) + " of Punctuation");
      }
      part = behavior == "Isolated" ? "Punctuation:isolated" : "Punctuation:contiguous";
    } else if (type == "Split") {
      TRY_ASSIGN(part, split_pattern(source, *step));
    } else {
      return source.unsupported("the pre-tokenizer " + in_quotes(type));
    }
    if (behind) parts_behind = true;
    if (!part.empty() && !signature.empty()) signature += '\n';
    signature += part;
  }
  // Behind ByteLevel a step sees the byte alphabet; one family is known to do that.
  const bool known = parts_behind ? find_pretokenizer_by_signature(signature) != nullptr : is_known_split(signature);
  if (!known || signature.empty()) return source.unsupported("the pre-tokenizer " + in_quotes(signature));
  out.split = signature;
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

Status read_post_processor(const JsonSource& source, const Json& root, JsonPipeline& out) {
  bool template_seen = false;
  for (const Json* step : json_steps(json_member(root, "post_processor"), "processors")) {
    const std::string type = json_type(*step);
    if (type == "ByteLevel") continue;  // it moves offsets only
    if (type != "TemplateProcessing" || template_seen)
      return source.unsupported("the post_processor " + in_quotes(type));
    template_seen = true;
    TRY(read_template(source, *step, out));
  }
  return {};
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

Result<JsonPipeline> read_pipeline(const JsonSource& source, const Json& root) {
  JsonPipeline out;
  TRY_ASSIGN(out.normalizer, read_normalizer(source, root));
  TRY(read_post_processor(source, root, out));
  bool byte_level = false;
  for (const Json* step : json_steps(json_member(root, "pre_tokenizer"), "pretokenizers")) {
    byte_level |= json_type(*step) == "ByteLevel";
  }
  if (!byte_level) {
    TRY(read_piece_pretokenizer(source, root, out));
    TRY(read_piece_decoder(source, root, out));
    return out;
  }
  TRY(read_byte_level_pretokenizer(source, root, out));
  const Json* decoder = json_member(root, "decoder");
  if (decoder == nullptr || json_type(*decoder) != "ByteLevel") {
    return source.unsupported(decoder == nullptr ? "a missing decoder"
                                                 : "the decoder " + in_quotes(json_type(*decoder)));
  }
  return out;
}

}  // namespace ibid
