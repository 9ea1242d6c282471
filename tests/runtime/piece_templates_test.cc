// Prefill of old answers with SentencePiece tokenizers and the templates of their models: sampled tokens stay wherever
// the template shows their text unchanged.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/generate/reply_text.h"
#include "runtime/prompt/prompt_planner.h"
#include "templates/chat_template.h"
#include "tests/tokenizer/golden_tokenizers.h"

namespace ibid {
namespace {

// The relevant parts of the models' templates, with the control tokens of the golden vocabularies.
constexpr const char* kLlama2 =
    "{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '<|bos|>' + '[INST] ' + message['content'].strip() + ' [/INST]' }}"
    "{% else %}{{ ' ' + message['content'].strip() + ' ' + '<|im_end|>' }}{% endif %}{% endfor %}";
constexpr const char* kMistral01 =
    "{{ '<|bos|>' }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + ' [/INST]' }}"
    "{% else %}{{ message['content'] + '<|im_end|>' + ' ' }}{% endif %}{% endfor %}";
constexpr const char* kMistral03 =
    "{{ '<|bos|>' }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '[INST] ' + message['content'] + '[/INST]' }}"
    "{% else %}{{ ' ' + message['content'] | trim + '<|im_end|>' }}{% endif %}{% endfor %}";
constexpr const char* kGemma =
    "{{ '<|bos|>' }}{% for message in messages %}"
    "{{ '<|im_start|>' + ('model' if message['role'] == 'assistant' else message['role']) + '\n' }}"
    "{{ message['content'] | trim + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}";
// <SR> swallows the white space after it, as Phi-3's tokens do.
constexpr const char* kPhi3 =
    "{{ '<|bos|>' }}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{{ '<SR>\n' + message['content'] + '<|im_end|>\n<SR>\n' }}"
    "{% else %}{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}";

struct Conversation {
  Conversation(const char* family, const char* source)
      : tokenizer(load_golden_tokenizer(family)),
        chat_template(*ChatTemplate::compile(source)),
        planner(*tokenizer, chat_template, {}, system_clock()),
        end(*tokenizer->find_token("<|im_end|>")) {}

  // Runs a turn with this answer. Returns the number of tokens of the previous answer that did not stay.
  size_t turn(const std::string& question, const Tokens& answer) {
    messages.push_back({{"role", "user"}, {"content", question}});
    Result<PromptDelta> planned = planner.plan(messages, transcript);
    EXPECT_TRUE(planned.ok()) << planned.status().message();
    PromptDelta delta = *std::move(planned);
    size_t lost = 0;
    for (const TranscriptSpan& span : transcript.spans()) {
      if (span.origin != SpanOrigin::kSampled) continue;
      const size_t ends = span.id_begin + span.token_ends.size();
      lost = ends - std::clamp(delta.n_keep, span.id_begin, ends);
    }
    ReplyText text(*tokenizer, StopDetector({}));
    for (const TokenId id : answer) text.push(id);
    Generation generation;
    text.finish(generation);
    SampledReply reply;
    reply.ids = generation.ids;
    reply.text_ends = generation.text_ends;
    reply.text = generation.text;
    reply.end_of_turn = end;
    reply.end_of_turn_text = "<|im_end|>";
    planner.append_reply(delta, reply, messages.size());
    transcript.prepare(delta.patch);
    planner.commit(delta, transcript);
    messages.push_back({{"role", "assistant"}, {"content", generation.text}});
    return lost;
  }

  // The tokens of the prompt of `messages`, encoded as one text.
  Tokens encoded() const {
    TemplateVariables variables;
    variables.values["add_generation_prompt"] = true;
    const MarkedText text = *chat_template.render(messages.json(), variables);
    return tokenizer->encode_marked(text);
  }

  std::unique_ptr<Tokenizer> tokenizer;
  ChatTemplate chat_template;
  PromptPlanner planner;
  TokenId end;
  Transcript transcript;
  MessageList messages;
};

struct Model {
  const char *name, *family, *source;
};
constexpr Model kModels[] = {{"Llama 2", "llama2", kLlama2},
                             {"Mistral 0.1", "llama2", kMistral01},
                             {"Mistral 0.3", "llama2", kMistral03},
                             {"Gemma", "gemma", kGemma},
                             {"Phi-3", "llama2", kPhi3}};

// One token for each character.
Tokens spelled(const Tokenizer& tokenizer, const std::string& answer) {
  Tokens ids;
  for (const char c : answer) ids.push_back(*tokenizer.find_token(c == ' ' ? "\u2581" : std::string(1, c)));
  return ids;
}

// Number of tokens of an answer that the next two turns do not keep: none unless the template changes the text. A cut
// at the end drops the tokens of the cut text; a change at the beginning drops all.
struct KnownAnswer {
  const char* text;
  size_t lost[std::size(kModels)];
};
constexpr size_t kAll = SIZE_MAX;
constexpr KnownAnswer kAnswers[] = {
    {" the world", {0, 0, 0, kAll, 0}},    // Gemma's first token is a space of its own
    {"the world", {kAll, 0, kAll, 0, 0}},  // the model did not sample the template's space
    {" the world\n", {1, 0, 1, kAll, 0}},     {"the world\n\n", {kAll, 0, kAll, 2, 0}},
    {" the world \n\n ", {3, 0, 4, kAll, 0}}, {" the world ", {0, 0, 1, kAll, 0}},
    {"  the world", {0, 0, 0, kAll, 0}},      {"\nthe world", {kAll, 0, kAll, kAll, 0}}};

TEST(PieceTemplates, OldAnswersKeepTokensThatTheTemplateDoesNotChange) {
  for (size_t i = 0; i < std::size(kModels); ++i) {
    for (const KnownAnswer& answer : kAnswers) {
      SCOPED_TRACE(std::string(kModels[i].name) + ": " + testing::PrintToString(answer.text));
      Conversation one(kModels[i].family, kModels[i].source);
      const Tokens ids = spelled(*one.tokenizer, answer.text);
      const size_t lost = answer.lost[i] == kAll ? ids.size() : answer.lost[i];
      EXPECT_EQ(one.turn("hello", ids), 0u);
      EXPECT_EQ(one.turn("and the world", ids), lost);
      EXPECT_EQ(one.turn("in the world", ids), lost);
    }
  }
}

// Answers in the encoder's tokens: encoding them again mostly gives the same tokens.
TEST(PieceTemplates, AnswerWhoseTokensEqualItsEncodingIsKept) {
  for (const Model& model : kModels) {
    SCOPED_TRACE(model.name);
    Conversation one(model.family, model.source);
    const Tokens ids = one.tokenizer->encode("the world and the hello", TextOrigin::kInput);
    for (const char* question : {"hello", "and the world", "in the world"}) EXPECT_EQ(one.turn(question, ids), 0u);
  }
}

// Text that replaces an answer, or follows a removed one, is encoded as if there had been no answer.
TEST(PieceTemplates, TextAfterAnEditedOrRemovedAnswerIsEncodedAsWithoutTheAnswer) {
  for (const Model& model : kModels) {
    for (const char* answer : {" the world", "the world", " the world\n"}) {
      for (const char* edited : {"in the end", " in", ""}) {
        SCOPED_TRACE(std::string(model.name) + ": " + testing::PrintToString(answer) + " " + edited);
        Conversation one(model.family, model.source);
        one.turn("hello", spelled(*one.tokenizer, answer));
        one.messages.replace_from(1, {});
        if (*edited != '\0') one.messages.push_back({{"role", "assistant"}, {"content", edited}});
        if (*edited != '\0') one.messages.push_back({{"role", "user"}, {"content", "and"}});
        const Result<PromptDelta> delta = one.planner.plan(one.messages, one.transcript);
        ASSERT_TRUE(delta.ok()) << delta.status().message();
        one.transcript.apply(delta->patch);
        EXPECT_EQ(one.transcript.ids(), one.encoded());
      }
    }
  }
}

}  // namespace
}  // namespace ibid
