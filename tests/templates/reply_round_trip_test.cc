// The parser finds the known answers in the text that a template renders for them: for every template of the reference
// data, and every split of the text.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "templates/message.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/reply_format.h"
#include "tests/support/paths.h"
#include "tests/templates/reply_support.h"

namespace ibid {
namespace {

struct AnswerCase {
  std::string name;
  Json message;
};

std::vector<AnswerCase> answer_cases() {
  const Json paris = {{"city", "Paris"}, {"days", 3}, {"exact", true}};
  const Json hard = {{"city", "a \"b\" \\ 'c'\n{d} ünï 日本 😀"}, {"note", "x < y && <b>z</b> [1] {\"q\": 1}"}};
  const Json nested = {{"tags", {"x", "y z"}}, {"where", {{"lat", 1.5}, {"in", {{"deep", {1, 2, {{"k", false}}}}}}}}};
  const Json markers = {
      {"note", "</tool_call> <tool_call> [TOOL_CALLS] </function> <|tool_call> </parameter> </arg_value>"}};
  const auto one = [](const Json& arguments) {
    return Json::array({tool_call("get_weather", arguments, "call00001")});
  };
  const Json two = Json::array(
      {tool_call("get_weather", paris, "call00001"), tool_call("add", {{"a", 1}, {"b", 2.5}}, "call00002")});
  const Json none = Json::array({tool_call("now", Json::object(), "call00001")});
  const std::string thought = "The user asks.\nSo I call.";
  return {
      {"text", assistant("It is *sunny*.\n\n- one\n- two")},
      {"text_markup", assistant("Use `<b>` and {\"a\": 1}; x < y.")},
      {"text_reasoning", assistant("It is sunny.", Json(), thought)},
      {"call", assistant("", one(paris))},
      {"call_text", assistant("Let me see.", one(paris))},
      {"call_two", assistant("", two)},
      {"call_two_text", assistant("Both, then.", two)},
      {"call_empty", assistant("", none)},
      {"call_hard", assistant("", one(hard))},
      {"call_nested", assistant("", one(nested))},
      {"call_markers", assistant("", one(markers))},
      {"call_reasoning", assistant("", one(paris), thought)},
      {"call_two_reasoning", assistant("", two, thought)},
  };
}

bool shows(const std::string& text, const Json& message, const char* key) {
  const std::string* value = text_member(message, key);
  return value != nullptr && !value->empty() && text.find(*value) != text.npos;
}

// Returns the difference between the parsed answer and the message, or an empty text. Parts that the template does not
// render are ignored.
std::string compare(const Json& message, const std::string& text, const ParsedReply& reply, bool shows_calls) {
  std::string content = shows(text, message, "content") ? message["content"].get<std::string>() : "";
  // gpt-oss renders content beside a call as reasoning.
  if (!content.empty() && text.find("analysis<|message|>" + content) != text.npos) {
    return reply.reasoning == content && reply.content.empty() ? "" : "analysis: " + Json(reply.reasoning).dump();
  }
  // The template may add spaces around the content.
  if (trim_marker_spaces(reply.content) != content) return "content: " + Json(reply.content).dump();
  const std::string reasoning = shows(text, message, "thinking") ? message["thinking"].get<std::string>() : "";
  if (reply.reasoning != reasoning) return "reasoning: " + Json(reply.reasoning).dump();
  if (!message.contains("tool_calls") || !shows_calls) return reply.calls.empty() ? "" : "a call that is none";
  size_t n_shown = 0;
  for (const Json& call : message["tool_calls"]) {
    const Json& function = call["function"];
    // The template renders only one call.
    if (n_shown > 0 && text.find(function["name"].get<std::string>()) == text.npos) continue;
    if (reply.calls.size() <= n_shown) return "too few calls: " + std::to_string(reply.calls.size());
    const ParsedCall& got = reply.calls[n_shown++];
    if (Json(got.name) != function["name"]) return "name " + got.name;
    if (!same_value(got.arguments, function["arguments"])) return "arguments " + got.arguments;
    if (!got.id.empty() && Json(got.id) != call["id"] && got.id.find(got.name) == got.id.npos) return "id " + got.id;
  }
  return reply.calls.size() == n_shown ? "" : "too many calls";
}

// Templates of the reference data that show no calls, each with the reason.
const std::map<std::string, std::string> kWithoutCalls = {
    {"HuggingFaceTB-SmolLM3-3B", "its edited template knows no tools"},
    {"ibm-granite-granite-3.3-2B-Instruct", "tells the model in words"},
    {"llama-cpp-rwkv-world", "knows no tools"},
    {"microsoft-Phi-3.5-mini-instruct", "knows no tools"},
    {"pkg-smollm2", "knows no tools"},
};

class EveryTemplate : public testing::Test {
 protected:
  void for_each(const std::function<void(const NamedTemplate&, const ChatTemplate&, const ReplyFormat&)>& check) {
    IBID_NEED_SHARED(shared);
    for (const NamedTemplate& one : reference_templates(shared)) {
      SCOPED_TRACE(one.name);
      const auto compiled = ChatTemplate::compile(one.source);
      ASSERT_TRUE(compiled.ok()) << compiled.status().message();
      const ReplyFormat format = find_reply_format(*compiled);
      EXPECT_FALSE(has_probe_words(format));
      check(one, *compiled, format);
    }
  }
};

TEST_F(EveryTemplate, EachTemplateShowsCallsUnlessListedAsAnException) {
  for_each([](const NamedTemplate& one, const ChatTemplate&, const ReplyFormat& format) {
    const bool shows_calls = format.origin == "derived from the template" || format.channels;
    EXPECT_EQ(shows_calls, !kWithoutCalls.contains(one.name)) << format.origin;
  });
}

TEST_F(EveryTemplate, AnswersWrittenByATemplateAreParsed) {
  std::map<std::string, size_t> n_checked;
  for_each([&](const NamedTemplate& one, const ChatTemplate& chat_template, const ReplyFormat& format) {
    for (const AnswerCase& answer : answer_cases()) {
      const auto written = write_answer(chat_template, answer.message);
      if (!written) continue;
      const ReplyContext context{.tools = &weather_tools(), .prompt_end = written->prompt};
      const SplitReply whole = split(format, context, {written->text});
      EXPECT_EQ(compare(answer.message, written->text, whole.reply, !kWithoutCalls.contains(one.name)), "")
          << answer.name << "\n"
          << written->text;
      ++n_checked[one.name];
    }
  });
  for (const auto& [name, n] : n_checked) EXPECT_GE(n, 3u) << name;
}

TEST_F(EveryTemplate, EventsDoNotDependOnHowTextIsSplit) {
  Random random(20261123);
  for_each([&](const NamedTemplate&, const ChatTemplate& chat_template, const ReplyFormat& format) {
    for (const AnswerCase& answer : answer_cases()) {
      const auto written = write_answer(chat_template, answer.message);
      if (!written) continue;
      for (const bool streamed : {false, true}) {
        const ReplyContext context{&weather_tools(), written->prompt, streamed};
        // The whole answer, and every prefix of it.
        for (size_t n = 0; n <= written->text.size(); ++n) {
          const std::string text = written->text.substr(0, n);
          const SplitReply whole = split(format, context, {text});
          const bool all_cuts = n == written->text.size() || n % 7 == 0;
          if (all_cuts) {
            ASSERT_EQ(split(format, context, cut_everywhere(text)).events, whole.events) << text;
          }
          ASSERT_EQ(split(format, context, cut_at_random(text, random)).events, whole.events) << text;
        }
      }
    }
  });
}

}  // namespace
}  // namespace ibid
