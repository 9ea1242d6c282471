#include "apps/inspect/tokenizer_facts.h"

#include <algorithm>
#include <optional>

namespace ibid {

namespace {

struct Family {
  std::string name;           // "byte-level BPE"
  std::string pre_tokenizer;  // "qwen2" of GGUF, "Split, ByteLevel" of tokenizer.json; empty: none
};

std::string gguf_family(std::string_view model) {
  if (model == "gpt2") return "byte-level BPE";
  if (model == "llama" || model == "gemma4") return "SentencePiece BPE";
  if (model == "t5") return "Unigram";
  if (model == "bert") return "WordPiece";
  return std::string(model);
}

// The types of a part of tokenizer.json, those of a Sequence one by one.
void add_types(const Json& part, std::vector<std::string>& types) {
  if (!part.is_object()) return;
  const auto type = part.find("type");
  if (type == part.end() || !type->is_string()) return;
  if (*type != "Sequence") {
    types.push_back(type->get<std::string>());
    return;
  }
  for (const char* list : {"pretokenizers", "decoders", "normalizers"}) {
    const auto steps = part.find(list);
    if (steps == part.end() || !steps->is_array()) continue;
    for (const Json& step : *steps) add_types(step, types);
  }
}

std::vector<std::string> types_of(const Json& json, const char* part) {
  std::vector<std::string> types;
  if (const auto found = json.find(part); found != json.end()) add_types(*found, types);
  return types;
}

bool holds(const std::vector<std::string>& types, std::string_view type) {
  return std::ranges::find(types, type) != types.end();
}

std::optional<Family> json_family(const std::string& text) {
  const Result<Json> json = parse_json(text, "tokenizer.json", {.allow_duplicate_keys = true});
  if (!json.ok() || !json->is_object()) return std::nullopt;
  const auto model = json->find("model");
  std::string type = "BPE";
  if (model != json->end() && model->is_object()) {
    const auto named = model->find("type");
    if (named != model->end() && named->is_string()) type = named->get<std::string>();
  }
  const std::vector<std::string> pre = types_of(*json, "pre_tokenizer");
  Family family{type, ""};
  if (type == "BPE") {
    const bool bytes = holds(pre, "ByteLevel") || holds(types_of(*json, "decoder"), "ByteLevel");
    family.name = bytes ? "byte-level BPE" : "SentencePiece BPE";
  }
  for (const std::string& step : pre) family.pre_tokenizer += (family.pre_tokenizer.empty() ? "" : ", ") + step;
  return family;
}

std::optional<Family> family_of(const ModelFile& file) {
  if (const auto text = file.companion("tokenizer.json"); text.ok() && *text) return json_family(**text);
  const auto model = file.get_string("tokenizer.ggml.model");
  if (!model.ok() || !*model) return std::nullopt;
  const auto pre = file.get_string("tokenizer.ggml.pre");
  return Family{gguf_family(**model), pre.ok() && *pre ? std::string(**pre) : std::string()};
}

Fact token_fact(const char* name, std::optional<TokenId> id, const Tokenizer& tokenizer) {
  if (!id) return {name, "none", nullptr};
  const std::string text(tokenizer.token_bytes(*id));
  return {name, text + " (" + std::to_string(*id) + ")", {{"id", *id}, {"text", text}}};
}

}  // namespace

Facts tokenizer_facts(const ModelFile& file, const Tokenizer* tokenizer) {
  Facts facts;
  if (const std::optional<Family> family = family_of(file)) {
    facts.push_back({"family", family->name, family->name});
    if (!family->pre_tokenizer.empty()) {
      facts.push_back({"pre tokenizer", family->pre_tokenizer, family->pre_tokenizer});
    }
  }
  if (tokenizer == nullptr) return facts;
  size_t n_special = 0;
  const auto n = static_cast<TokenId>(tokenizer->vocab_size());
  for (TokenId id = 0; id < n; ++id) n_special += tokenizer->is_special(id) ? 1 : 0;
  facts.push_back({"tokens", std::to_string(n) + ", " + std::to_string(n_special) + " of them special", n});
  facts.push_back(token_fact("begins a text", tokenizer->bos(), *tokenizer));
  facts.push_back(token_fact("ends a text", tokenizer->eos(), *tokenizer));
  std::string text;
  Json ids = Json::array();
  for (const TokenId id : tokenizer->end_of_turn()) {
    text += (text.empty() ? "" : ", ") + std::string(tokenizer->token_bytes(id)) + " (" + std::to_string(id) + ")";
    ids.push_back(id);
  }
  facts.push_back({"ends a turn", text.empty() ? "nothing" : text, std::move(ids)});
  return facts;
}

}  // namespace ibid
