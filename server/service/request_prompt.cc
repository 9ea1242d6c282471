#include "server/service/request_prompt.h"

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "runtime/prompt/plain_prompt.h"
#include "server/service/system_messages.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/protocol_messages.h"

namespace ibid::serve {
namespace {

// The special tokens that precede the prefix, suffix and middle of a text in one family of models. The names are those
// of llama.cpp (src/llama-vocab.cpp), and those of Mistral's models, which read the suffix first and have no token
// before the middle.
struct FamilyNames {
  std::string_view prefix, suffix, middle;
  bool suffix_first = false;
};
constexpr FamilyNames kFamilies[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},  // Qwen, CodeGemma
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},        // StarCoder, Granite
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
    {"<\uFF5Cfim\u2581begin\uFF5C>", "<\uFF5Cfim\u2581hole\uFF5C>", "<\uFF5Cfim\u2581end\uFF5C>"},  // DeepSeek
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},                                      // GLM
    {"<PRE>", "<SUF>", "<MID>"},                                                                    // CodeLlama
    {"\u2581<PRE>", "\u2581<SUF>", "\u2581<MID>"},
    {" <PRE>", " <SUF>", " <MID>"},
    {"[PREFIX]", "[SUFFIX]", "", true},  // Codestral
};
constexpr std::string_view kRepositories[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"};
constexpr std::string_view kFiles[] = {"<|file_sep|>", "<file_sep>"};

struct InfillTokens {
  TokenId prefix = 0, suffix = 0;
  std::optional<TokenId> middle = {}, repository = {}, file = {};
  bool suffix_first = false;
};

std::optional<TokenId> first_of(const Tokenizer& tokenizer, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    if (const std::optional<TokenId> id = tokenizer.find_token(name)) return id;
  }
  return std::nullopt;
}

std::optional<InfillTokens> infill_tokens(const Tokenizer& tokenizer) {
  for (const FamilyNames& family : kFamilies) {
    const std::optional<TokenId> prefix = tokenizer.find_token(family.prefix);
    const std::optional<TokenId> suffix = tokenizer.find_token(family.suffix);
    const std::optional<TokenId> middle = family.middle.empty() ? std::nullopt : tokenizer.find_token(family.middle);
    if (!prefix || !suffix || (!family.middle.empty() && !middle)) continue;
    return InfillTokens{.prefix = *prefix,
                        .suffix = *suffix,
                        .middle = middle,
                        .repository = first_of(tokenizer, kRepositories),
                        .file = first_of(tokenizer, kFiles),
                        .suffix_first = family.suffix_first};
  }
  return std::nullopt;
}

// Returns the BOS token if the tokenizer puts it before every text, else nothing.
Tokens tokens_in_front(const Tokenizer& tokenizer) {
  Tokens ids = tokenizer.encode("", TextOrigin::kTemplate, true);
  if (!tokenizer.bos() || ids.empty() || ids.front() != *tokenizer.bos()) return {};
  ids.resize(1);
  return ids;
}

void append(Tokens& ids, const Tokens& more) { ids.insert(ids.end(), more.begin(), more.end()); }

// Appends the context in the form of llama.cpp's server: the name of the repository, then each file after its name.
void append_files(const Tokenizer& tokenizer, const InfillTokens& special, const Infill& infill, Tokens& ids) {
  if (infill.files.empty()) return;
  const auto text = [&](const std::string& one) { append(ids, tokenizer.encode(one, TextOrigin::kInput)); };
  if (special.repository) {
    ids.push_back(*special.repository);
    text("myproject\n");
  }
  for (const Infill::File& file : infill.files) {
    if (special.file) {
      ids.push_back(*special.file);
      text(file.name + "\n");
    } else {
      text("\n\n--- snippet ---\n\n");
    }
    text(file.text);
  }
  if (!special.file) return;
  ids.push_back(*special.file);
  text("filename\n");
}

Tokens ids_of_infill(const Tokenizer& tokenizer, const InfillTokens& special, const Infill& infill) {
  Tokens ids = tokens_in_front(tokenizer);
  append_files(tokenizer, special, infill, ids);
  const auto part = [&](TokenId mark, const std::string& text) {
    ids.push_back(mark);
    append(ids, tokenizer.encode(text, TextOrigin::kInput));
  };
  if (special.suffix_first) part(special.suffix, infill.suffix);
  part(special.prefix, infill.prefix);
  if (!special.suffix_first) part(special.suffix, infill.suffix);
  if (special.middle) ids.push_back(*special.middle);
  return ids;
}

// Returns the approximate length of a value as JSON text, without serialising it.
size_t bytes_of_json(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().size();
  size_t n = 8;
  if (value.is_structured()) {
    for (const Json& part : value) n += bytes_of_json(part);
  }
  return n;
}

size_t bytes_of(const std::variant<std::string, Tokens>& input) {
  if (const auto* text = std::get_if<std::string>(&input)) return text->size();
  return std::get<Tokens>(input).size() * sizeof(TokenId);
}

}  // namespace

Tokens ids_of_pieces(const Tokenizer& tokenizer, const PromptPieces& pieces) {
  Tokens ids;
  for (const auto& piece : pieces) {
    const auto* text = std::get_if<std::string>(&piece);
    if (text == nullptr) {
      append(ids, std::get<Tokens>(piece));
      continue;
    }
    if (&piece == &pieces.front()) ids = tokens_in_front(tokenizer);
    append(ids, tokenizer.encode(*text, TextOrigin::kTemplate));
  }
  return ids;
}

void set_text_biases(const Tokenizer& tokenizer, AnswerRequest& request) {
  std::map<TokenId, double> biases;
  for (const auto& [text, bias] : request.text_biases) {
    for (const TokenId id : tokenizer.encode(text, TextOrigin::kInput)) biases[id] = bias;
  }
  request.options.sampler.logit_bias.merge(std::move(biases));
}

bool can_infill(const Tokenizer& tokenizer) { return infill_tokens(tokenizer).has_value(); }

Status tokenize_prompt(const Engine& engine, std::optional<Prompt>& prompt) {
  if (!prompt) return {};
  const Tokenizer& tokenizer = engine.state().tokenizer();
  if (const auto* pieces = std::get_if<PromptPieces>(&*prompt)) {
    prompt = ids_of_pieces(tokenizer, *pieces);
  } else if (const auto* infill = std::get_if<Infill>(&*prompt)) {
    const std::optional<InfillTokens> special = infill_tokens(tokenizer);
    if (!special) {
      return {ErrorCode::kUnsupported,
              "suffix: the vocabulary of " + engine.name() + " has no tokens for filling in the middle"};
    }
    prompt = ids_of_infill(tokenizer, *special, *infill);
  }
  return {};
}

size_t bytes_of_prompt(const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return text->size();
  if (const auto* ids = std::get_if<Tokens>(&prompt)) return ids->size() * sizeof(TokenId);
  size_t n = 0;
  if (const auto* infill = std::get_if<Infill>(&prompt)) {
    for (const Infill::File& file : infill->files) n += file.name.size() + file.text.size();
    return n + infill->prefix.size() + infill->suffix.size();
  }
  for (const auto& piece : std::get<PromptPieces>(prompt)) n += bytes_of(piece);
  return n;
}

Json variables_for(const AnswerRequest& request) {
  Json variables = request.variables.is_object() ? request.variables : Json::object();
  if (!request.tools.is_null() && !request.tools.empty()) variables["tools"] = request.tools;
  return variables;
}

namespace {

Result<TemplateVariables> template_variables(const Engine& engine, const AnswerRequest& request) {
  TRY(engine.state().check_answers());
  const ChatTemplate* chat_template = engine.state().chat_template();
  if (chat_template == nullptr) return {ErrorCode::kUnsupported, engine.name() + " has no chat template"};
  return TemplateVariables{.values = variables_for(request), .now = iso_time(engine.state().clock().unix_ns())};
}

// Renders the prompt of a request that continues its last message.
Result<MarkedText> rendered_to_continue(const Engine& engine, const AnswerRequest& request) {
  TRY_ASSIGN(TemplateVariables variables, template_variables(engine, request));
  variables.values["add_generation_prompt"] = false;
  Json messages = messages_for_template(request.messages, engine.state().reply_format());
  TRY_ASSIGN(const std::string content, append_continue_tag(messages.back()));
  TRY_ASSIGN(const MarkedText render, engine.state().chat_template()->render(messages, variables));
  TRY_ASSIGN(ContinuedText text, cut_at_continue_tag(render, content));
  return std::move(text.text);
}

}  // namespace

Result<MarkedText> rendered(const Engine& engine, const AnswerRequest& request, const Json& messages) {
  TRY_ASSIGN(TemplateVariables variables, template_variables(engine, request));
  variables.values["add_generation_prompt"] = request.adds_generation_prompt;
  return engine.state().chat_template()->render(messages_for_template(messages, engine.state().reply_format()),
                                                variables);
}

Result<MarkedText> prompt_text(const Engine& engine, AnswerRequest& request) {
  TRY(tokenize_prompt(engine, request.prompt));
  if (request.prompt) {
    if (const auto* text = std::get_if<std::string>(&*request.prompt)) return MarkedText(*text, TextOrigin::kTemplate);
    return MarkedText(engine.state().tokenizer().decode(std::get<Tokens>(*request.prompt)), TextOrigin::kTemplate);
  }
  TRY(prepare_messages(engine, request));
  if (request.continues) return rendered_to_continue(engine, request);
  Result<MarkedText> text = rendered(engine, request, request.messages);
  const bool again = !text.ok() && is_refusal(text.status().code()) && join_system_to_user(request);
  return again ? rendered(engine, request, request.messages) : std::move(text);
}

Result<Tokens> encode_prompt_ids(const Engine& engine, AnswerRequest& request) {
  TRY(tokenize_prompt(engine, request.prompt));
  if (request.prompt) {
    const auto* text = std::get_if<std::string>(&*request.prompt);
    const Json message = text != nullptr ? plain_message(*text) : plain_message(std::get<Tokens>(*request.prompt));
    const Transcript nothing;
    TRY_ASSIGN(const PromptDelta plan, plan_plain_prompt(engine.state().tokenizer(), Json::array({message}), nothing));
    return PromptIds(plan, nothing).from(0);
  }
  TRY_ASSIGN(const MarkedText text, prompt_text(engine, request));
  return engine.state().tokenizer().encode_marked(text);
}

size_t bytes_of_prompt(const AnswerRequest& request) {
  if (!request.prompt) return bytes_of_json(request.messages) + bytes_of_json(request.tools);
  return bytes_of_prompt(*request.prompt);
}

}  // namespace ibid::serve
