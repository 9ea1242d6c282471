#include "tokenizer/loading/chat_template_text.h"

#include <string_view>
#include <utility>

#include "base/json_members.h"
#include "base/text.h"
#include "tokenizer/loading/json_pipeline.h"
#include "tokenizer/loading/special_tokens.h"
#include "weights/model_json.h"

namespace ibid {
namespace {

constexpr std::string_view kDefault = "default", kToolUse = "tool_use";

// Removes the byte order mark that some editors write before a text.
std::string without_mark(std::string text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : std::move(text);
}

// Templates by name. If "default" is missing, the first other name replaces it.
struct NamedTemplates {
  std::optional<std::string> usual, tool_use;
  std::string other_name, other;

  void add(std::string_view name, std::string source) {
    if (name == kDefault) {
      usual = std::move(source);
    } else if (name == kToolUse) {
      tool_use = std::move(source);
    } else if (other_name.empty()) {
      other_name = name;
      other = std::move(source);
    }
  }

  // Moves the templates into `out`. Returns false if there is no template.
  bool finish(const std::string& path, ChatTemplateText& out) && {
    if (!usual && !other_name.empty()) {
      out.warnings.push_back(path + ": no chat template is named 'default', " + in_quotes(other_name) + " is used");
      usual = std::move(other);
    }
    if (!usual && !tool_use) return false;
    out.source = without_mark(usual ? *std::move(usual) : *tool_use);
    if (tool_use) out.source_for_tools = without_mark(*std::move(tool_use));
    return true;
  }
};

struct TemplateToken {
  const char* name;
  std::string_view key;
  int64_t usual;  // token id in SentencePiece's vocabularies, used if the file has no key for the token
};
constexpr TemplateToken kTemplateTokens[] = {{"bos_token", "tokenizer.ggml.bos_token_id", 1},
                                             {"eos_token", "tokenizer.ggml.eos_token_id", 2},
                                             {"unk_token", "tokenizer.ggml.unknown_token_id", 0},
                                             {"pad_token", "tokenizer.ggml.padding_token_id", -1}};

Result<Json> gguf_variables(const ModelFile& file) {
  Json variables = Json::object();
  TRY_ASSIGN(const auto tokens, file.get_strings("tokenizer.ggml.tokens"));
  if (!tokens) return variables;
  TRY_ASSIGN(const auto model, file.get_string("tokenizer.ggml.model"));
  for (const TemplateToken& special : kTemplateTokens) {
    TRY_ASSIGN(const std::optional<int64_t> named, file.get_int(special.key));
    const int64_t id = named.value_or(model == "llama" ? special.usual : -1);
    if (id < 0 || static_cast<uint64_t>(id) >= tokens->size()) continue;
    const std::string_view text = (*tokens)[static_cast<size_t>(id)];
    if (named || text.starts_with('<')) variables[special.name] = text;
  }
  return variables;
}

Result<NamedTemplates> gguf_templates(const ModelFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  NamedTemplates templates;
  std::vector<std::string_view> names = {kToolUse};
  // The list of further templates. A list of another type is ignored, because each template also has a key of its own.
  if (const auto listed = file.get_strings("tokenizer.chat_templates"); listed.ok() && *listed) {
    names.insert(names.end(), (*listed)->begin(), (*listed)->end());
  }
  TRY_ASSIGN(const std::optional<std::string_view> usual, file.get_string(kKey));
  for (const std::string_view name : names) {
    TRY_ASSIGN(const auto text, file.get_string(std::string(kKey) + "." + std::string(name)));
    if (text) templates.add(name, std::string(*text));
  }
  if (usual) templates.usual = std::string(*usual);
  return templates;
}

// Returns the templates of tokenizer_config.json: one template, a list of {"name", "template"}, or an object of
// templates by name.
NamedTemplates config_templates(const Json& config) {
  NamedTemplates templates;
  const Json* found = member(config, "chat_template");
  if (found == nullptr) return templates;
  if (found->is_string()) templates.usual = found->get<std::string>();
  if (found->is_object()) {
    for (const auto& [name, text] : found->items()) {
      if (text.is_string()) templates.add(name, text.get<std::string>());
    }
  }
  if (!found->is_array()) return templates;
  for (const Json& entry : *found) {
    const std::optional<std::string> name = json_text(entry, "name"), text = json_text(entry, "template");
    if (name && text) templates.add(*name, *text);
  }
  return templates;
}

Result<NamedTemplates> directory_templates(const ModelFile& file, const Json& config) {
  TRY_ASSIGN(std::optional<std::string> usual, file.companion("chat_template.jinja"));
  TRY_ASSIGN(std::optional<std::string> tool_use, file.companion("additional_chat_templates/tool_use.jinja"));
  NamedTemplates templates;
  if (!usual) templates = config_templates(config);
  if (usual) templates.usual = std::move(usual);
  if (tool_use) templates.tool_use = std::move(tool_use);
  if (templates.usual || templates.tool_use || !templates.other_name.empty()) return templates;
  TRY_ASSIGN(const std::optional<std::string> text, file.companion("chat_template.json"));
  if (!text) return templates;
  TRY_ASSIGN(const Json json, parse_model_json(*text, file.path() + "/chat_template.json"));
  return config_templates(json);
}

}  // namespace

Result<std::optional<ChatTemplateText>> find_chat_template(const ModelFile& file) {
  ChatTemplateText out;
  NamedTemplates templates;
  if (file.container() == Container::kGguf) {
    TRY_ASSIGN(templates, gguf_templates(file));
    TRY_ASSIGN(out.variables, gguf_variables(file));
  } else {
    TRY_ASSIGN(SpecialTokens special, read_special_tokens(file));
    TRY_ASSIGN(templates, directory_templates(file, special.config));
    out.variables = std::move(special.names);
  }
  TRY(file.check_unchanged());
  if (!std::move(templates).finish(file.path(), out)) return std::optional<ChatTemplateText>();
  return std::optional<ChatTemplateText>(std::move(out));
}

}  // namespace ibid
