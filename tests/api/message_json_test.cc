#include "runtime/session/message_json.h"

#include <gtest/gtest.h>

#include <string>

#include "base/json_limits.h"

namespace ibid {
namespace {

// Returns the JSON of a program's message, as the template sees it.
std::string seen(const Message& message) {
  const Result<Json> json = json_of(message);
  return json.ok() ? json_to_string(*json) : json.status().to_string();
}

TEST(MessageJson, MessageWithoutFieldsHasOnlyRoleAndContent) {
  EXPECT_EQ(seen({"user", "Hello!"}), R"({"role":"user","content":"Hello!"})");
  EXPECT_EQ(seen({"user"}), R"({"role":"user","content":""})");
}

TEST(MessageJson, FieldsFollowRoleAndContentInTheirOrder) {
  EXPECT_EQ(seen({.role = "tool", .content = "21", .fields = R"({"name": "weather", "id": [1.5, null]})"}),
            R"({"role":"tool","content":"21","name":"weather","id":[1.5,null]})");
}

TEST(MessageJson, ContentMayBeGivenInMessageFields) {
  EXPECT_EQ(seen({.role = "user", .fields = R"({"content": [{"type": "text", "text": "Hi"}]})"}),
            R"({"role":"user","content":[{"type":"text","text":"Hi"}]})");
  EXPECT_EQ(seen({.role = "assistant", .fields = R"({"tool_calls": []})"}), R"({"role":"assistant","tool_calls":[]})");
}

TEST(MessageJson, RepeatedRoleOrContentIsRejected) {
  EXPECT_EQ(seen({.role = "user", .fields = R"({"role": "system"})"}),
            R"(InvalidArgument: the message's fields: "role" is given twice)");
  EXPECT_EQ(seen({.role = "user", .content = "a", .fields = R"({"content": "b"})"}),
            R"(InvalidArgument: the message's fields: "content" is given twice)");
}

TEST(MessageJson, InvalidFieldsAreRejected) {
  EXPECT_EQ(seen({.role = "user", .fields = "[1]"}), "InvalidArgument: the message's fields: not a JSON object");
  const char* not_json = "InvalidArgument: the message's fields: not valid JSON at byte";
  EXPECT_EQ(seen({.role = "user", .fields = "{\"a\": }"}).find(not_json), 0u);
  const std::string deep = "{\"a\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_EQ(json_of(Message{.role = "user", .fields = deep}).status().code(), ErrorCode::kInvalidArgument);
}

TEST(MessageJson, HistoryErrorNamesItsMessage) {
  const Result<Json> history = history_of({{"user", "a"}, {.role = "user", .fields = "x"}});
  ASSERT_FALSE(history.ok());
  EXPECT_EQ(history.status().message().find("message 1: the message's fields: "), 0u);
}

TEST(MessageJson, MessagesSurviveWritingAndReading) {
  for (const char* text :
       {R"({"role":"user","content":"Hello!"})", R"({"role":"user","content":""})", R"({"role":"a"})",
        R"({"role":"tool","content":"21","name":"w"})", R"({"role":"tool","content":"","name":"w"})",
        R"({"role":"user","content":[{"type":"text"}]})", R"({"role":"a","content":null})",
        R"({"role":"assistant","tool_calls":[{"id":1}]})"}) {
    const Message message = message_of(*parse_json(text, "test"));
    EXPECT_EQ(seen(message), text);
    EXPECT_EQ(message_of(*json_of(message)), message) << text;
  }
  const Message plain = message_of(*parse_json(R"({"role":"user","content":"Hello!"})", "test"));
  EXPECT_EQ(plain, (Message{"user", "Hello!"}));
}

TEST(MessageJson, TemplateVariablesMustBeAnObjectOrEmpty) {
  EXPECT_EQ(json_to_string(*variables_of("")), "{}");
  EXPECT_EQ(json_to_string(*variables_of(R"({"enable_thinking": false})")), R"({"enable_thinking":false})");
  EXPECT_EQ(variables_of("true").status().message(), "the template's variables: not a JSON object");
}

}  // namespace
}  // namespace ibid
