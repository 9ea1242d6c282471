// System messages where a template refuses or hides them, and prompts of several parts.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/service/request_prompt.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

constexpr const char* kBody =
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
const std::string kOnlyFirst = std::string(
                                   "{% for message in messages %}{% if message.role == 'system' and not loop.first %}"
                                   "{{ raise_exception('System message must be at the beginning.') }}{% endif %}") +
                               kBody;
const std::string kHidesLater =
    std::string("{% for message in messages if message.role != 'system' or message == messages[0] %}") + kBody;
const std::string kNoSystem = std::string(
                                  "{% for message in messages %}{% if message.role == 'system' %}"
                                  "{{ raise_exception('System role not supported') }}{% endif %}") +
                              kBody;
// Roles alternate after the first system message.
const std::string kAlternates =
    std::string(
        "{% if messages[0].role == 'system' %}{% set first = 1 %}{% else %}{% set first = 0 %}{% endif %}"
        "{% for message in messages %}{% if loop.index0 >= first and message.role != "
        "('user' if (loop.index0 - first) % 2 == 0 else 'assistant') %}"
        "{{ raise_exception('Roles must alternate') }}{% endif %}") +
    kBody;

Json system_message(const std::string& text) { return make_message(Role::kSystem, text); }
Json assistant(const std::string& text) { return make_message(Role::kAssistant, text); }

// The messages as ChatML without its markers: "system:S|user:a|assistant:".
std::string shown(const std::string& prompt) {
  std::string out;
  for (size_t at = prompt.find("<|im_start|>"); at != std::string::npos; at = prompt.find("<|im_start|>", at + 1)) {
    const size_t begin = at + std::string_view("<|im_start|>").size();
    const size_t end = std::min(prompt.find("<|im_end|>", begin), prompt.size());
    std::string part = prompt.substr(begin, end - begin);
    part.replace(part.find('\n'), 1, ":");
    out += (out.empty() ? "" : "|") + part;
  }
  return out;
}

TEST(PlacedMessagesTest, SystemMessagesAreMovedToWhereTheTemplateAllowsThem) {
  const Json late = Json::array({system_message("S"), user("a"), system_message("T")});
  const Json between = Json::array({user("a"), assistant("b"), system_message("T"), user("c")});
  const Json twice = Json::array({system_message("S"), system_message("T"), user("a")});
  const Json alone = Json::array({system_message("S")});
  const Json behind = Json::array({user("a"), assistant("b"), system_message("T")});
  struct Case {
    std::string source;
    Json messages;
    const char* shown;
    bool changes;
  };
  const Case cases[] = {
      {kChatMl, late, "system:S|user:a|system:T|assistant:\n", false},
      {kChatMl, alone, "system:S|assistant:\n", false},
      {kOnlyFirst, late, "system:S|user:a\n\nT|assistant:\n", true},
      {kOnlyFirst, between, "user:a|assistant:b|user:T\n\nc|assistant:\n", true},
      {kOnlyFirst, twice, "system:S\n\nT|user:a|assistant:\n", true},
      {kOnlyFirst, behind, "user:a|assistant:b|user:T|assistant:\n", true},
      {kOnlyFirst, alone, "system:S|assistant:\n", false},
      {kHidesLater, late, "system:S|user:a\n\nT|assistant:\n", true},
      {kHidesLater, Json::array({system_message("S"), user("a"), system_message("a")}),
       "system:S|user:a\n\na|assistant:\n", true},
      {kNoSystem, late, "user:S\n\nT\n\na|assistant:\n", true},
      {kNoSystem, Json::array({system_message("S"), user("a")}), "user:S\n\na|assistant:\n", true},
      {kNoSystem, alone, "user:S|assistant:\n", true},
      {kAlternates, late, "system:S|user:a\n\nT|assistant:\n", true},
      {kAlternates, between, "user:a|assistant:b|user:T\n\nc|assistant:\n", true},
  };
  for (const Case& one : cases) {
    ServiceFixture f(ServiceFixture::quiet(), one.source.c_str());
    EXPECT_EQ(shown(f.render_prompt(ask(one.messages))) + "\n", one.shown) << one.source;
    AnswerRequest request = ask(one.messages);
    request.returns_prompt_ids = true;
    const auto heard = f.start(std::move(request));
    ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string() << one.source;
    EXPECT_EQ(shown(f.chat.tokenizer->decode(heard->prompt_ids())) + "\n", one.shown) << one.source;
    EXPECT_EQ(f.count_prompt(ask(one.messages)), heard->n_prompt());
    EXPECT_EQ(heard->ignored_parts().empty(), !one.changes) << one.shown;
  }
}

// Messages that stay invalid have the template's own error.
TEST(PlacedMessagesTest, TemplateErrorIsReportedIfMovingSystemMessagesDoesNotHelp) {
  ServiceFixture f(ServiceFixture::quiet(), kAlternates.c_str());
  const auto heard = f.start(ask(Json::array({assistant("b"), system_message("T"), assistant("c"), user("d")})));
  EXPECT_EQ(heard->wait().code(), ErrorCode::kTemplateRaise);
  EXPECT_NE(heard->wait().message().find("Roles must alternate"), std::string::npos);
}

// A later turn keeps the prompt of the earlier one.
TEST(PlacedMessagesTest, JoinedSystemMessagesKeepTheCachedPrefix) {
  ServiceFixture f(ServiceFixture::quiet(), kOnlyFirst.c_str());
  Json messages = Json::array({system_message(std::string(300, 's')), user("a"), system_message("T")});
  const Answer first = f.answer(ask(messages));
  messages.push_back(assistant(first.content));
  messages.push_back(user("more"));
  const Answer second = f.answer(ask(messages));
  EXPECT_LT(second.usage.n_prefilled, 60u);
  EXPECT_GT(second.usage.n_cached, 300u);
}

TEST(PlacedMessagesTest, SystemMessageAtTheEndIsAnswered) {
  ServiceFixture f;
  const Answer answer = f.answer(ask(Json::array({user("a"), system_message("T")})));
  EXPECT_EQ(answer.usage.n_prompt, f.chat
                                       .ids("<|im_start|>user\na<|im_end|>\n<|im_start|>system\nt<|im_end|>\n"
                                            "<|im_start|>assistant\n")
                                       .size());
}

std::string prompt_of(const std::vector<std::string>& special, Prompt prompt) {
  EngineParts parts;
  parts.tokenizer = std::make_unique<FakeTokenizer>(special);
  ServiceFixture f(ServiceFixture::quiet(), kChatMl, {}, 64u << 20, std::move(parts));
  AnswerRequest request = ask(Json::array());
  request.prompt = std::move(prompt);
  request.returns_prompt_ids = true;
  const auto heard = f.start(std::move(request));
  if (!heard->wait().ok()) return heard->wait().message();
  return f.chat.tokenizer->decode(heard->prompt_ids());
}

TEST(PlacedMessagesTest, InfillPromptUsesTheSpecialTokensOfTheVocabulary) {
  const Infill gap{.prefix = "def", .suffix = "end"};
  const Infill with_file{.prefix = "def", .suffix = "end", .files = {{"a.py", "x = 1"}}};
  const std::vector<std::string> qwen = {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>",
                                         "<|file_sep|>"};
  EXPECT_EQ(prompt_of(qwen, gap), "<|fim_prefix|>def<|fim_suffix|>end<|fim_middle|>");
  EXPECT_EQ(prompt_of(qwen, with_file),
            "<|repo_name|>myproject\n<|file_sep|>a.py\nx = 1<|file_sep|>filename\n"
            "<|fim_prefix|>def<|fim_suffix|>end<|fim_middle|>");
  const std::vector<std::string> starcoder = {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"};
  EXPECT_EQ(prompt_of(starcoder, with_file), "\n\n--- snippet ---\n\nx = 1<fim_prefix>def<fim_suffix>end<fim_middle>");
  EXPECT_EQ(prompt_of({"[PREFIX]", "[SUFFIX]", "[MIDDLE]"}, gap), "[SUFFIX]end[PREFIX]def");
  const std::string refused = prompt_of({"<|fim_prefix|>", "<|fim_suffix|>"}, gap);
  EXPECT_TRUE(refused.starts_with("suffix: ") && refused.ends_with("has no tokens for filling in the middle"))
      << refused;
  // A marker in the text is text.
  const Infill marked{.prefix = "<|fim_middle|>", .suffix = ""};
  EXPECT_EQ(prompt_of(qwen, marked), "<|fim_prefix|><|fim_middle|><|fim_suffix|><|fim_middle|>");
  FakeTokenizer tokenizer(qwen);
  EXPECT_TRUE(can_infill(tokenizer));
  EXPECT_FALSE(can_infill(FakeTokenizer()));
}

TEST(PlacedMessagesTest, BiasOfATextAppliesToItsTokens) {
  const FakeTokenizer tokenizer;
  AnswerRequest request;
  request.text_biases = {{"ac", 2}, {"b", -1.5}, {"d", 3}, {"a", 4}};
  const auto id_of = [&](const char* text) { return tokenizer.find_token(text).value(); };
  request.options.sampler.logit_bias[id_of("d")] = 7;
  set_text_biases(tokenizer, request);
  const std::map<TokenId, double> wanted = {{id_of("a"), 4}, {id_of("b"), -1.5}, {id_of("c"), 2}, {id_of("d"), 7}};
  EXPECT_EQ(request.options.sampler.logit_bias, wanted) << "the last text and ids by themselves take precedence";
}

TEST(PlacedMessagesTest, TextAndTokenPiecesOfAPromptAreJoined) {
  const FakeTokenizer tokenizer;
  const Tokens ids = tokenizer.sampled({"c", "d"});
  EXPECT_EQ(prompt_of({}, PromptPieces{"ab", ids, "e"}), "abcde");
  EXPECT_EQ(prompt_of({}, PromptPieces{ids, "e"}), "cde");
  EXPECT_NE(prompt_of({}, PromptPieces{"a", Tokens{99'999}}).find("99999"), std::string::npos) << "an error";
}

}  // namespace
}  // namespace ibid::serve
