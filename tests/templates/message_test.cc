#include "templates/message.h"

#include <gtest/gtest.h>

namespace ibid {
namespace {

TEST(MessageTest, MakeMessageSetsRoleAndContent) {
  const Json message = make_message(Role::kAssistant, "Sure.");
  EXPECT_EQ(json_to_string(message), R"({"role":"assistant","content":"Sure."})");
  EXPECT_TRUE(is_from(message, Role::kAssistant));
  EXPECT_FALSE(is_from(message, Role::kUser));
  ASSERT_NE(content_of(message), nullptr);
  EXPECT_EQ(*content_of(message), "Sure.");
}

TEST(MessageTest, SetContentKeepsTheOrderOfFields) {
  Json message = make_message(Role::kUser, "a");
  message["name"] = "x";
  set_content(message, "b");
  EXPECT_EQ(json_to_string(message), R"({"role":"user","content":"b","name":"x"})");
}

TEST(MessageTest, NonMessagesHaveNoRoleAndNoContent) {
  for (const char* text : {"null", "7", "\"role\"", "[]", "{}", R"({"role":7,"content":null})",
                           R"({"role":["user"],"content":[{"type":"text","text":"a"}]})"}) {
    SCOPED_TRACE(text);
    const Json json = *parse_json(text, "message");
    EXPECT_FALSE(has_role(json));
    EXPECT_EQ(role_of(json), "");
    EXPECT_FALSE(is_from(json, Role::kUser));
    EXPECT_EQ(content_of(json), nullptr);
  }
}

TEST(MessageTest, UnknownRoleIsReturnedUnchanged) {
  const Json message = *parse_json(R"({"role":"developer","content":"x"})", "message");
  EXPECT_TRUE(has_role(message));
  EXPECT_EQ(role_of(message), "developer");
}

}  // namespace
}  // namespace ibid
