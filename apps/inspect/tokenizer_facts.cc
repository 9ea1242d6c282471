#include "apps/inspect/tokenizer_facts.h"

#include <string>
#include <utility>

namespace ibid {

namespace {

Fact token_fact(const char* name, std::optional<TokenId> id, const Tokenizer& tokenizer) {
  if (!id) return {name, "none", nullptr};
  const std::string text(tokenizer.token_bytes(*id));
  return {name, text + " (" + std::to_string(*id) + ")", {{"id", *id}, {"text", text}}};
}

}  // namespace

Facts tokenizer_facts(const std::optional<TokenizerKind>& kind, const Tokenizer* tokenizer) {
  Facts facts;
  if (kind) {
    facts.push_back({"family", kind->family, kind->family});
    if (!kind->pre_tokenizer.empty()) facts.push_back({"pre tokenizer", kind->pre_tokenizer, kind->pre_tokenizer});
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
