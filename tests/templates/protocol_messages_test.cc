// Answers sent to a client as messages of the protocol, and returned in its next request: the template renders the
// bytes that the answer was parsed from.
#include "templates/reply/protocol_messages.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "templates/message.h"
#include "templates/reply/find_reply_format.h"
#include "tests/support/paths.h"
#include "tests/templates/reply_support.h"

namespace ibid {
namespace {

const ReplyFormat kOrdinary;

Json protocol_call(const std::string& arguments) {
  return {{"id", "call00001"}, {"type", "function"}, {"function", {{"name", "add"}, {"arguments", arguments}}}};
}

TEST(ProtocolMessages, ArgumentStringsBecomeObjects) {
  Json message = assistant("", Json::array({protocol_call("{\"b\": 1, \"a\": 1.0}")}));
  message["content"] = nullptr;
  const Json got = message_for_template(message, kOrdinary);
  EXPECT_EQ(json_to_string(got["tool_calls"][0]["function"]["arguments"]), "{\"b\":1,\"a\":1.0}");
  EXPECT_EQ(got["content"], "");
  EXPECT_EQ(json_to_string(message_for_template(got, kOrdinary)), json_to_string(got));
}

TEST(ProtocolMessages, NonObjectArgumentsStayUnchanged) {
  for (const char* text : {"no JSON", "[1]", "{\"a\": 1"}) {
    const Json message = assistant("", Json::array({protocol_call(text)}));
    EXPECT_EQ(message_for_template(message, kOrdinary), message);
  }
  const Json empty = message_for_template(assistant("", Json::array({protocol_call("")})), kOrdinary);
  EXPECT_EQ(empty["tool_calls"][0]["function"]["arguments"], Json::object());
}

TEST(ProtocolMessages, MalformedMessagesStayUnchanged) {
  for (const char* text :
       {"null", "1", "[]", "{}", R"({"role": "assistant", "content": null})", R"({"role": "user", "tool_calls": 1})",
        R"({"role": "assistant", "content": "", "tool_calls": {}})",
        R"({"role": "assistant", "content": "", "tool_calls": [1, null, {}, {"function": 3}]})"}) {
    const Json message = *parse_json(text, "test");
    EXPECT_EQ(json_to_string(message_for_template(message, kOrdinary)), json_to_string(message));
    EXPECT_NO_FATAL_FAILURE(messages_for_template(Json::array({message, message}), kOrdinary));
  }
}

TEST(ProtocolMessages, ToolResultsGetTheToolName) {
  const Json result = {{"role", "tool"}, {"tool_call_id", "call00001"}, {"content", "2"}};
  const Json got =
      messages_for_template(Json::array({assistant("", Json::array({protocol_call("{}")})), result}), kOrdinary);
  EXPECT_EQ(got[1]["name"], "add");
}

TEST(ProtocolMessages, MissingCallIdsAreGenerated) {
  ParsedReply reply{"", "", {{"", "add", "{}"}, {"mine", "add", "{}"}, {"", "add", "{}"}}};
  assign_call_ids(reply, 7);
  EXPECT_EQ(reply.calls[0].id.size(), 9u);
  EXPECT_EQ(reply.calls[1].id, "mine");
  EXPECT_NE(reply.calls[0].id, reply.calls[2].id);
  ParsedReply again{"", "", {{"", "add", "{}"}}};
  assign_call_ids(again, 7);
  EXPECT_EQ(again.calls[0].id, reply.calls[0].id);
}

// Each answer is rendered by the template, parsed, sent as a message of the protocol, and rendered again.
TEST(ProtocolMessages, ParsedAnswersSentBackAreRenderedAsWritten) {
  IBID_NEED_SHARED(shared);
  const Json arguments = {{"city", "a \"b\"\n{d} ünï"},
                          {"days", 3},
                          {"exact", true},
                          {"tags", {"x", "y"}},
                          {"where", {{"z", 1.5}, {"a", {1, false}}}}};
  const Json one = Json::array({tool_call("get_weather", arguments, "call00001")});
  const Json two = Json::array(
      {tool_call("get_weather", arguments, "call00001"), tool_call("add", {{"b", 1}, {"a", 2}}, "call00002")});
  size_t n_written = 0;
  for (const NamedTemplate& named : reference_templates(shared)) {
    SCOPED_TRACE(named.name);
    const auto chat_template = ChatTemplate::compile(named.source);
    ASSERT_TRUE(chat_template.ok());
    const ReplyFormat format = find_reply_format(*chat_template);
    for (const Json& answer : {assistant("", one), assistant("", two), assistant("Let me see.", one),
                               assistant("Yes.", Json(), "Hm."), assistant("", one, "So I call.")}) {
      const auto written = write_answer(*chat_template, answer);
      if (!written || written->text.find("get_weather") == std::string::npos) continue;
      ParsedReply reply =
          parse_reply(format, {.tools = &weather_tools(), .prompt_end = written->prompt}, written->text);
      assign_call_ids(reply, 1);
      const Json back = message_for_template(protocol_message(reply), format);
      const auto again = write_answer(*chat_template, back);
      ASSERT_TRUE(again.has_value()) << back;
      EXPECT_EQ(again->text, written->text);
      EXPECT_EQ(again->prompt, written->prompt);
      ++n_written;
    }
  }
  EXPECT_GE(n_written, 60u);
}

// transformers reads each name for the others.
TEST(ProtocolMessages, ReasoningIsReadUnderThreeNames) {
  for (const char* sent : {"reasoning_content", "reasoning", "thinking"}) {
    for (const char* read : {"reasoning_content", "reasoning", "thinking"}) {
      ReplyFormat format;
      format.reasoning_key = read;
      Json message = {{"role", "assistant"}, {"content", "a"}, {sent, "why"}};
      EXPECT_EQ(message_for_template(message, format), Json({{"role", "assistant"}, {"content", "a"}, {read, "why"}}));
      message[read] = "own";
      EXPECT_EQ(message_for_template(message, format)[read], "own");
      message["role"] = "user";
      EXPECT_EQ(message_for_template(message, format), message);
    }
  }
  for (const Json& odd : {Json(), Json(7), Json::array({"why"}), Json("")}) {
    const Json message = {{"role", "assistant"}, {"content", "a"}, {"reasoning", odd}};
    EXPECT_EQ(message_for_template(message, ReplyFormat()), message);
  }
}

}  // namespace
}  // namespace ibid
