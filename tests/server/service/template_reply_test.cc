// The service with the templates of the reference data: the reply of each family is parsed; a call that the client
// sends back unchanged prefills nothing; a required call is made.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "base/text.h"
#include "runtime/session/turn_reply.h"
#include "server/service/request_prompt.h"
#include "templates/chat_template.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_format.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/paths.h"

namespace ibid::serve {
namespace {

// The tokens that end a turn in these templates.
constexpr const char* kEndsOfTurn[] = {"<|im_end|>", "<|eot_id|>",       "<|eom_id|>",
                                       "</s>",       "<|end_of_text|>",  "<seed:eos>",
                                       "<turn|>",    "<|tool_response>", "<｜end▁of▁sentence｜>",
                                       "<|user|>",   "<|observation|>",  "<|call|>",
                                       "<|return|>", "<|assistant_end|>"};

constexpr const char* kFamilies[] = {"Apertus-8B-Instruct",
                                     "Bielik-11B-v3.0-Instruct",
                                     "ByteDance-Seed-OSS",
                                     "GLM-4.6",
                                     "Mistral-Small-3.2-24B-Instruct-2506",
                                     "Qwen-Qwen2.5-7B-Instruct",
                                     "Qwen-Qwen3-0.6B",
                                     "Qwen3-Coder",
                                     "Qwen3.5-4B",
                                     "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
                                     "deepseek-ai-DeepSeek-V3.1",
                                     "google-gemma-4-31B-it",
                                     "ibm-granite-granite-4.0",
                                     "meetkai-functionary-medium-v3.1",
                                     "mistralai-Mistral-Nemo-Instruct-2407",
                                     "moonshotai-Kimi-K2",
                                     "openai-gpt-oss-120b"};

std::optional<std::string> read_template(const std::string& name) {
  const std::optional<std::string> shared = shared_dir();
  if (!shared) return std::nullopt;
  std::ifstream file(*shared + "/reference/templates/templates/" + name + ".jinja");
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Declares `source` as the template of that name, or skips the test.
#define IBID_NEED_TEMPLATE(source, name)                         \
  const std::optional<std::string> source = read_template(name); \
  if (!source) GTEST_SKIP() << "the reference data has no template " << (name)

Json weather_tools() {
  return parse_json(R"([
      {"type": "function", "function": {"name": "get_weather", "description": "The weather.", "parameters":
          {"type": "object", "properties": {"city": {"type": "string", "description": "where"},
                                            "days": {"type": "integer", "description": "how long"},
                                            "exact": {"type": "boolean", "description": "how"}}, "required": ["city"]}}},
      {"type": "function", "function": {"name": "add", "description": "A sum.", "parameters":
          {"type": "object", "properties": {"a": {"type": "number", "description": "one"},
                                            "b": {"type": "number", "description": "two"}}, "required": ["a"]}}}])",
                    "test")
      .value();
}

Json call(const char* name, const char* arguments, const char* id) {
  return {{"id", id},
          {"type", "function"},
          {"function", {{"name", name}, {"arguments", parse_json(arguments, "test").value()}}}};
}

const std::map<std::string, Json>& called() {
  static const auto& calls = *new std::map<std::string, Json>{
      {"one", Json::array({call("get_weather", R"({"city": "Paris", "days": 3, "exact": true})", "call00001")})},
      {"two", Json::array({call("get_weather", R"({"city": "a \"b\" < c", "days": -1})", "call00001"),
                           call("add", R"({"a": 1.5, "b": 2})", "call00002")})}};
  return calls;
}

bool same_value(const std::string& a, const Json& b) {
  return nlohmann::json::parse(a, nullptr, false) == nlohmann::json::parse(b.dump());
}

EngineParts parts_of(const std::string& source, bool special_markers) {
  std::vector<std::string> special, ends;
  for (const char* end : kEndsOfTurn) {
    if (source.find(end) != source.npos || std::string_view(end) == "</s>") ends.emplace_back(end);
  }
  special = ends;
  const auto compiled = ChatTemplate::compile(source);
  const ReplyFormat format = find_reply_format(*compiled);
  if (special_markers) {
    for (const std::string& word : solid_marker_words(describe_calls(format))) {
      const bool is_tag = (word.front() == '<' && word.back() == '>') || (word.front() == '[' && word.back() == ']');
      const bool is_new = std::ranges::find(special, word) == special.end();
      if (is_tag && word.size() > 2 && is_new && word.find("NAME") == word.npos) special.push_back(word);
    }
  }
  EngineParts parts;
  parts.tokenizer = std::make_unique<FakeTokenizer>(special, ends);
  return parts;
}

struct FamilyFixture : ServiceFixture {
  explicit FamilyFixture(const std::string& source, bool special_markers = false)
      : ServiceFixture(quiet(), source.c_str(), {.vocab_size = 400, .max_seq_len = 32768, .max_chunk = 4096}, 64u << 20,
                       parts_of(source, special_markers)) {}

  AnswerRequest request(bool with_tools) const {
    AnswerRequest out = ask(Json::array({user("Which weather?")}));
    if (with_tools) out.tools = weather_tools();
    out.options.max_tokens = 2000;
    out.variables["bos_token"] = "<s>";
    out.variables["eos_token"] = "</s>";
    // If thinking is off, Gemma's prompt has text that the rendered history lacks.
    if (chat.engine->state().chat_template()->source().find("<|channel>thought") != std::string::npos) {
      out.variables["enable_thinking"] = true;
    }
    return out;
  }
  Tokens prompt_of(const AnswerRequest& request) const {
    const Result<MarkedText> text = rendered(*chat.engine, request, request.messages);
    EXPECT_TRUE(text.ok()) << text.status().message();
    return text.ok() ? chat.tokenizer->encode_marked(*text) : Tokens();
  }
  // Returns `message` as the template renders it after the prompt, and the token that ends it; nullopt if the template
  // inserts other text before it or refuses it.
  std::optional<Tokens> written(const AnswerRequest& request, const Json& message) const {
    const Result<MarkedText> prompt = rendered(*chat.engine, request, request.messages);
    TemplateVariables variables{.values = chat.engine->state().chat_template()->default_variables(),
                                .now = iso_time(chat.engine->state().clock().unix_ns())};
    variables.values.update(variables_for(request));
    variables.values["add_generation_prompt"] = false;
    Json messages = request.messages;
    messages.push_back(message);
    messages = messages_for_template(messages, chat.engine->state().reply_format());
    const auto whole = chat.engine->state().chat_template()->render(messages, variables);
    if (!prompt.ok() || !whole.ok() || !whole->bytes().starts_with(prompt->bytes())) return std::nullopt;
    const std::string text = whole->bytes().substr(prompt->bytes().size());
    size_t end = text.npos;
    const char* marker = nullptr;
    for (const char* one : kEndsOfTurn) {
      if (text.find(one) < end) end = text.find(marker = one);
    }
    if (marker == nullptr && chat.tokenizer->find_token("<|observation|>")) marker = "<|observation|>";
    if (marker == nullptr) return std::nullopt;
    Tokens ids = chat.ids(text.substr(0, end));
    ids.push_back(chat.tokenizer->find_token(marker).value());
    return ids;
  }
  void says(size_t begin, Tokens ids) {
    chat.model->script = [begin, ids = std::move(ids)](TokenSpan prefix) -> std::optional<TokenId> {
      if (prefix.size() < begin || prefix.size() >= begin + ids.size()) return std::nullopt;
      return ids[prefix.size() - begin];
    };
  }
};

class FamilyTest : public testing::TestWithParam<const char*> {};

// Families for which this is not so, each with the reason, which the template shows.
const std::map<std::string, std::string> kOthers = {
    {"Apertus-8B-Instruct", "the result of a tool stands within the answer that called it"},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "the prompt opens reasoning, and history shows none"},
};

// The forms in which clients send an answer back: arguments unchanged; parsed and serialised again, as JavaScript does
// for Anthropic's and Ollama's objects; and without any content.
std::vector<Json> sent_back(const Answer& answer) {
  const Json same = message_of_answer(answer);
  Json rewritten = same, absent = same;
  for (Json& one : rewritten["tool_calls"]) {
    const Json arguments = parse_json(one["function"]["arguments"].get<std::string>(), "test").value();
    one["function"]["arguments"] = arguments.dump();
  }
  rewritten["content"] = answer.content;
  absent.erase("content");
  if (!answer.content.empty()) absent["content"] = answer.content;
  return {same, rewritten, absent};
}

TEST_P(FamilyTest, UnchangedToolCallIsNotPrefilledAgain) {
  IBID_NEED_TEMPLATE(source, GetParam());
  size_t n_checked = 0;
  for (const bool special : {false, true}) {
    for (const auto& [name, calls] : called()) {
      for (size_t way = 0; way < 3; ++way) {
        SCOPED_TRACE(name + (special ? ", special markers, way " : ", way ") + std::to_string(way));
        FamilyFixture f(*source, special);
        AnswerRequest request = f.request(true);
        const Tokens prompt = f.prompt_of(request);
        Json message = make_message(Role::kAssistant, "");
        message["tool_calls"] = calls;
        const std::optional<Tokens> said = f.written(request, message);
        if (!said || (calls.size() > 1 && !f.chat.engine->state().reply_format().calls->several)) continue;
        f.says(prompt.size(), *said);
        const Answer answer = f.answer(request);
        EXPECT_EQ(answer.content, "");
        ASSERT_EQ(answer.tool_calls.size(), calls.size()) << answer.text;
        request.messages.push_back(sent_back(answer)[way]);
        for (size_t i = 0; i < calls.size(); ++i) {
          EXPECT_EQ(calls[i]["function"]["name"], answer.tool_calls[i].name);
          EXPECT_TRUE(same_value(answer.tool_calls[i].arguments, calls[i]["function"]["arguments"])) << answer.text;
          Json result = make_message(Role::kTool, "sun");
          result["tool_call_id"] = answer.tool_calls[i].id;
          request.messages.push_back(result);
        }
        request.options.max_tokens = 1;
        const Answer next = f.answer(request);
        EXPECT_EQ(next.usage.n_cached, prompt.size() + said->size() - 1)
            << (next.lost_prefix ? next.lost_prefix->to_string() : "");
        ++n_checked;
      }
    }
  }
  EXPECT_EQ(n_checked == 0, kOthers.contains(GetParam()));
}

TEST_P(FamilyTest, RequiredCallIsMadeInTheSyntaxOfTheTemplate) {
  IBID_NEED_TEMPLATE(source, GetParam());
  for (const bool special : {false, true}) {
    SCOPED_TRACE(special);
    FamilyFixture f(*source, special);
    AnswerRequest request = f.request(true);
    request.variables["enable_thinking"] = false;
    request.tools[0]["function"]["parameters"] = parse_json(R"({"$defs": {"Place": {"enum": ["here", "there"]}},
        "type": "object", "properties": {"city": {"$ref": "#/$defs/Place"}, "days": {"type": "integer", "minimum": 1,
        "maximum": 9}, "exact": {"type": "boolean"}}, "required": ["city", "days"]})",
                                                            "test")
                                                     .value();
    request.tool_choice = {.kind = ToolChoice::Kind::kNamed, .name = "get_weather"};
    // The model is scripted to call with a city that the schema does not allow.
    Json message = make_message(Role::kAssistant, "");
    message["tool_calls"] = called().at("one");
    const ReplyFormat& format = f.chat.engine->state().reply_format();
    const Result<MarkedText> text = rendered(*f.chat.engine, request, request.messages);
    ASSERT_TRUE(text.ok()) << text.status().message();
    const std::string prompt = text->bytes();
    Tokens said = opens_reasoning(format, prompt) ? f.chat.ids(reasoning_of(format).end) : Tokens();
    const std::optional<Tokens> call = f.written(request, message);
    // Reasoning is random text: it would precede the call and never end.
    if (!call && kOthers.contains(GetParam())) continue;
    if (call) said.insert(said.end(), call->begin(), call->end());
    f.says(f.prompt_of(request).size(), said);
    const Answer answer = f.answer(request);
    ASSERT_EQ(answer.tool_calls.size(), 1u) << answer.text;
    EXPECT_EQ(answer.tool_calls[0].name, "get_weather");
    const Json arguments = parse_json(answer.tool_calls[0].arguments, "test").value();
    EXPECT_TRUE(arguments["city"] == "here" || arguments["city"] == "there") << answer.text;
    EXPECT_TRUE(arguments["days"].is_number_integer() && arguments["days"] > 0 && arguments["days"] < 10)
        << answer.text;
    EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
  }
}

// The grammar of calls does not change what the model writes by itself.
TEST_P(FamilyTest, StrictCallKeepsTheSyntaxOfTheTemplate) {
  IBID_NEED_TEMPLATE(source, GetParam());
  for (const bool special : {false, true}) {
    for (const auto& [name, calls] : called()) {
      SCOPED_TRACE(name + (special ? ", special markers" : ""));
      FamilyFixture f(*source, special);
      AnswerRequest request = f.request(true);
      for (Json& tool : request.tools) tool["function"]["strict"] = true;
      Json message = make_message(Role::kAssistant, "");
      message["tool_calls"] = calls;
      const std::optional<Tokens> said = f.written(request, message);
      const ReplyFormat& format = f.chat.engine->state().reply_format();
      if (!said || (calls.size() > 1 && !format.calls->several)) continue;
      f.says(f.prompt_of(request).size(), *said);
      const Answer answer = f.answer(request);
      EXPECT_EQ(answer.usage.n_decoded, said->size()) << answer.text;
      ASSERT_EQ(answer.tool_calls.size(), calls.size()) << answer.text;
      for (size_t i = 0; i < calls.size(); ++i) {
        EXPECT_TRUE(same_value(answer.tool_calls[i].arguments, calls[i]["function"]["arguments"])) << answer.text;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, FamilyTest, testing::ValuesIn(kFamilies), [](const auto& family) {
  std::string name;
  for (const char* c = family.param; *c != 0; ++c) name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  return name;
});

struct Thinking {
  const char* family;
  const char* variables;
  const char* text;  // in the family's notation
  const char* content;
};

constexpr const char* kThought = "First this,\nthen that.";

constexpr Thinking kThinking[] = {
    {"llama-cpp-deepseek-r1", "{}", "First this,\nthen that.\n</think>\n\nIt is sunny.", "It is sunny."},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", R"({"enable_thinking": true})",
     "First this,\nthen that.\n</think>\n\nIt is sunny.", "It is sunny."},
    {"deepseek-ai-DeepSeek-V3.1", R"({"thinking": true})", "First this,\nthen that.</think>It is sunny.",
     "It is sunny."},
    {"google-gemma-4-31B-it", R"({"enable_thinking": true})",
     "<|channel>thought\nFirst this,\nthen that.<channel|>It is sunny.", "It is sunny."},
    {"ibm-granite-granite-3.3-2B-Instruct", R"({"thinking": true})",
     "<think>First this,\nthen that.</think><response>It is sunny.</response>", "It is sunny."},
    {"ibm-granite-granite-4.0", "{}", "<think>First this,\nthen that.</think>\nIt is sunny.", "It is sunny."},
    {"HuggingFaceTB-SmolLM3-3B", "{}", "<think>\nFirst this,\nthen that.\n</think>\nIt is sunny.", "It is sunny."},
    {"Qwen-Qwen3-0.6B", "{}", "<think>\nFirst this,\nthen that.\n</think>\n\nIt is sunny.", "It is sunny."},
    {"Qwen3.5-4B", R"({"enable_thinking": true})", "First this,\nthen that.\n</think>\n\nIt is sunny.", "It is sunny."},
    {"GLM-4.6", "{}", "\n<think>First this,\nthen that.</think>\nIt is sunny.", "It is sunny."},
    {"ByteDance-Seed-OSS", "{}", "<seed:think>First this,\nthen that.</seed:think>It is sunny.", "It is sunny."},
    {"openai-gpt-oss-120b", "{}",
     "<|channel|>analysis<|message|>First this,\nthen that.<|end|><|start|>assistant<|channel|>final<|message|>"
     "It is sunny.",
     "It is sunny."},
};

class ThinkingTest : public testing::TestWithParam<Thinking> {};

TEST_P(ThinkingTest, ReasoningIsSplitInTheSyntaxOfTheModelFamily) {
  const Thinking& thinking = GetParam();
  IBID_NEED_TEMPLATE(source, thinking.family);
  // The tools in this template cannot be serialised by Jinja's JSON.
  const bool takes_tools = std::string_view(thinking.family) != "llama-cpp-deepseek-r1";
  for (const bool with_tools : {false, takes_tools}) {
    for (const bool none : {false, true}) {
      SCOPED_TRACE(std::string(with_tools ? "tools" : "no tools") + (none ? ", none chosen" : ""));
      FamilyFixture f(*source);
      AnswerRequest request = f.request(with_tools);
      request.variables.update(parse_json(thinking.variables, "test").value());
      if (source->find("strftime_now") != source->npos) {  // without a system message the prompt has a date
        request.messages.insert(request.messages.begin(), make_message(Role::kSystem, "Think."));
      }
      if (none) request.tool_choice.kind = ToolChoice::Kind::kNone;
      Tokens said = f.chat.ids(thinking.text);
      said.push_back(f.chat.tokenizer->im_end);
      f.says(f.prompt_of(request).size(), said);
      const auto heard = f.start(request);
      ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
      EXPECT_EQ(heard->answer_of().reasoning, kThought);
      EXPECT_EQ(heard->answer_of().content, thinking.content);
      EXPECT_EQ(heard->said(), thinking.content);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Templates, ThinkingTest, testing::ValuesIn(kThinking), [](const auto& thinking) {
  std::string name;
  for (const char* c = thinking.param.family; *c != 0; ++c) {
    name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  }
  return name;
});

}  // namespace
}  // namespace ibid::serve
