#include "tokenizer/loading/chat_template_text.h"

#include <string_view>
#include <utility>
#include <vector>

#include "weights/model_file.h"
#include "weights/model_json.h"

namespace ibid {
namespace {

// The text of the token that `id_key` names.
Result<std::optional<std::string>> gguf_token(const ModelFile& file,
                                              const std::vector<std::string_view>& tokens,
                                              std::string_view id_key) {
  TRY_ASSIGN(const std::optional<int64_t> id, file.get_int(id_key));
  if (!id || *id < 0 || static_cast<uint64_t>(*id) >= tokens.size()) return std::optional<std::string>();
  return std::optional<std::string>(tokens[static_cast<size_t>(*id)]);
}

Result<Json> gguf_variables(const ModelFile& file) {
  Json variables = Json::object();
  TRY_ASSIGN(const auto tokens, file.get_strings("tokenizer.ggml.tokens"));
  if (!tokens) return variables;
  static constexpr std::pair<const char*, std::string_view> kTokens[] = {
      {"bos_token", "tokenizer.ggml.bos_token_id"},
      {"eos_token", "tokenizer.ggml.eos_token_id"},
      {"unk_token", "tokenizer.ggml.unknown_token_id"},
      {"pad_token", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [name, key] : kTokens) {
    TRY_ASSIGN(const auto token, gguf_token(file, *tokens, key));
    if (token) variables[name] = *token;
  }
  return variables;
}

// Every "..._token" of tokenizer_config.json; a text or an object with "content".
Json config_variables(const Json& config) {
  Json variables = Json::object();
  for (const auto& [key, value] : config.items()) {
    if (!std::string_view(key).ends_with("_token")) continue;
    if (value.is_string()) variables[key] = value;
    if (value.is_object() && value.contains("content") && value["content"].is_string())
      variables[key] = value["content"];
  }
  return variables;
}

// tokenizer_config.json has one template, or a list of named ones.
std::optional<std::string> config_template(const Json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return std::nullopt;
  if (found->is_string()) return found->get<std::string>();
  if (!found->is_array()) return std::nullopt;
  for (const Json& entry : *found) {
    if (entry.is_object() && entry.value("name", Json()) == Json("default") &&
        entry.value("template", Json()).is_string()) {
      return entry["template"].get<std::string>();
    }
  }
  return std::nullopt;
}

}  // namespace

Result<std::optional<ChatTemplateText>> find_chat_template(const ModelFile& file) {
  ChatTemplateText out;
  std::optional<std::string> source;
  if (file.container() == Container::kGguf) {
    TRY_ASSIGN(const auto text, file.get_string("tokenizer.chat_template"));
    if (text) source = std::string(*text);
    TRY_ASSIGN(out.variables, gguf_variables(file));
  } else {
    TRY_ASSIGN(source, file.companion("chat_template.jinja"));
    TRY_ASSIGN(const std::optional<std::string> text, file.companion("tokenizer_config.json"));
    Json config = Json::object();
    if (text) {
      TRY_ASSIGN(config, parse_model_json(*text, file.path() + "/tokenizer_config.json"));
    }
    if (config.is_object()) {
      out.variables = config_variables(config);
      if (!source) source = config_template(config);
    }
  }
  TRY(file.check_unchanged());
  if (!source) return std::optional<ChatTemplateText>();
  out.source = *std::move(source);
  return std::optional<ChatTemplateText>(std::move(out));
}

}  // namespace ibid
