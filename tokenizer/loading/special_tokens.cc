#include "tokenizer/loading/special_tokens.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "base/json_members.h"
#include "tokenizer/loading/json_pipeline.h"
#include "weights/model_json.h"

namespace ibid {
namespace {

constexpr size_t kMaxTokens = 100'000;  // more special tokens than any model has

// Returns the object in a file beside the weights; an empty object if the file is missing.
Result<Json> read_object(const ModelFile& file, const char* name) {
  TRY_ASSIGN(const std::optional<std::string> text, file.companion(name));
  if (!text) return Json::object();
  TRY_ASSIGN(Json json, parse_model_json(*text, file.path() + "/" + name));
  return json.is_object() ? json : Json::object();
}

// Returns the object in a file beside the weights. If the file is missing or cannot be read, returns an empty object;
// if it cannot be read, also adds a warning.
Json read_or_warn(const ModelFile& file, const char* name, std::vector<std::string>& warnings) {
  Result<Json> json = read_object(file, name);
  if (json.ok()) return *std::move(json);
  warnings.push_back(json.status().message() + "; the file is not used");
  return Json::object();
}

// Returns the text of a token, which is written as a text or as an object with "content".
std::optional<std::string> token_text(const Json& token) {
  return token.is_string() ? token.get<std::string>() : json_text(token, "content");
}

class Reader {
 public:
  explicit Reader(SpecialTokens& out) : out_(out) {}

  // Takes the tokens of every key "..._token", and of the lists of further tokens.
  void take_names(const Json& json) {
    for (const auto& [key, value] : json.items()) {
      if (std::string_view(key).ends_with("_token")) {
        const std::optional<std::string> text = token_text(value);
        if (!text || out_.names.contains(key)) continue;
        out_.names[key] = *text;
        add(value, kNoToken, true);
      } else if (key == "additional_special_tokens" || key == "extra_special_tokens") {
        if (value.is_array() || value.is_object()) {
          for (const Json& token : value) add(token, kNoToken, true);
        }
      }
    }
  }

  // Takes the tokens of {"128009": {"content": "<|eot_id|>", "special": true}, ...}, by ascending ids, as transformers
  // does.
  void take_decoder(const Json* decoder) {
    if (decoder == nullptr || !decoder->is_object()) return;
    std::vector<std::pair<TokenId, const Json*>> tokens;
    for (const auto& [key, token] : decoder->items()) {
      TokenId id = kNoToken;
      const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
      if (error == std::errc() && end == key.data() + key.size() && id >= 0) tokens.emplace_back(id, &token);
    }
    std::ranges::sort(tokens, {}, &std::pair<TokenId, const Json*>::first);
    for (const auto& [id, token] : tokens) add(*token, id, json_flag(*token, "special", false));
  }

  // Takes the tokens of {"<tool_call>": 151657, ...}.
  void take_ids(const Json& json) {
    std::vector<std::pair<int64_t, std::string>> tokens;
    for (const auto& [text, id] : json.items()) {
      if (id.is_number_unsigned() && id.get<uint64_t>() <= INT32_MAX) tokens.emplace_back(id.get<int64_t>(), text);
    }
    std::ranges::sort(tokens);
    for (const auto& [id, text] : tokens) add(Json(text), static_cast<TokenId>(id), false);
  }

 private:
  void add(const Json& token, TokenId id, bool special) {
    const std::optional<std::string> text = token_text(token);
    if (!text || text->empty() || out_.added.size() >= kMaxTokens) return;
    const auto [at, is_new] = places_.emplace(*text, out_.added.size());
    if (!is_new) {
      AddedToken& known = out_.added[at->second];
      known.special |= special;
      if (known.id == kNoToken) known.id = id;
      return;
    }
    AddedToken added{.text = *text, .id = id, .special = special};
    added.lstrip = json_flag(token, "lstrip", false);
    added.rstrip = json_flag(token, "rstrip", false);
    added.single_word = json_flag(token, "single_word", false);
    added.normalized = json_flag(token, "normalized", !special);
    out_.added.push_back(std::move(added));
  }

  SpecialTokens& out_;
  std::unordered_map<std::string, size_t> places_;
};

}  // namespace

Result<SpecialTokens> read_special_tokens(const ModelFile& file) {
  SpecialTokens out;
  if (file.container() == Container::kGguf) return out;
  TRY_ASSIGN(out.config, read_object(file, "tokenizer_config.json"));
  Reader reader(out);
  reader.take_decoder(member(out.config, "added_tokens_decoder"));
  reader.take_ids(read_or_warn(file, "added_tokens.json", out.warnings));
  reader.take_names(out.config);
  reader.take_names(read_or_warn(file, "special_tokens_map.json", out.warnings));
  return out;
}

Result<std::vector<int64_t>> read_end_ids(const ModelFile& file) {
  std::vector<int64_t> ids;
  if (file.container() == Container::kGguf) return ids;
  TRY_ASSIGN(const Json generation, read_object(file, "generation_config.json"));
  const Json* ends = member(generation, "eos_token_id");
  if (ends == nullptr && file.config_json() != nullptr) ends = member(*file.config_json(), "eos_token_id");
  if (ends == nullptr) return ids;
  for (const Json& end : ends->is_array() ? *ends : Json::array({*ends})) {
    if (end.is_number_integer()) ids.push_back(end.get<int64_t>());
  }
  return ids;
}

}  // namespace ibid
