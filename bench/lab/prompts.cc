#include "bench/lab/prompts.h"

#include <algorithm>
#include <iterator>

#include "base/checked.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

namespace {

constexpr const char* kWords[] = {"river",  "lantern", "copper", "window", "harvest", "signal", "winter", "market",
                                  "garden", "engine",  "letter", "bridge", "silver",  "forest", "island", "thread"};
constexpr size_t kMostTokensOfWord = 8;  // the longest with its blank, where every byte is a token

}  // namespace

std::string text_of_tokens(const Tokenizer& tokenizer, std::string_view lead, size_t n_tokens, size_t seed) {
  const size_t stride = 7 + 2 * (seed / std::size(kWords));  // odd: all words come in turn
  std::string text(lead);
  for (size_t word = 0;;) {
    const size_t n = tokenizer.encode(text, TextOrigin::kInput).size();
    if (n >= n_tokens) return text;
    const size_t more = std::max<size_t>(1, (n_tokens - n) / kMostTokensOfWord);
    for (size_t i = 0; i < more; ++i, ++word) {
      text += text.empty() ? "" : " ";
      text += kWords[(word * stride + word / std::size(kWords) * 3 + seed * 5) % std::size(kWords)];
    }
  }
}

Result<Tokens> prompt_of(const Engine& engine, const Json& messages) {
  TemplateVariables variables;
  variables.values = engine.chat_template()->default_variables();
  variables.values["add_generation_prompt"] = true;
  TRY_ASSIGN(const MarkedText text, engine.chat_template()->render(messages, variables));
  IncrementalEncoder encoder(engine.tokenizer());
  Tokens prompt;
  for (const MarkedText::Run run : text.runs()) {
    const IncrementalEncoder::Delta delta = encoder.append(run.bytes, run.origin);
    prompt.resize(delta.keep);
    prompt.insert(prompt.end(), delta.tokens.begin(), delta.tokens.end());
  }
  return prompt;
}

Result<size_t> tokens_around_first_message(const Engine& engine) {
  constexpr const char* kProbe = "river";
  Json messages = Json::array();
  messages.push_back(make_message(Role::kUser, kProbe));
  TRY_ASSIGN(const Tokens prompt, prompt_of(engine, messages));
  const size_t own = engine.tokenizer().encode(kProbe, TextOrigin::kInput).size();
  return saturating_sub(prompt.size(), own);
}

}  // namespace ibid
