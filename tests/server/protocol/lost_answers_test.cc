// If the server cannot complete an answer, the response must not look as if the model or a limit had ended it: it is a
// 503 if nothing was sent yet, else the last event of the stream is an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

using testing::AnyOf;
using testing::HasSubstr;
using testing::Not;

struct Asked {
  const char* path;
  const char* body;
  int status = 503;
};

constexpr Asked kAsked[] = {
    {"/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}])"},
    {"/v1/completions", R"({"prompt": "x")"},
    {"/v1/completions", R"({"prompt": ["x", "y"])"},
    {"/v1/responses", R"({"input": "x")"},
    {"/v1/messages", R"({"max_tokens": 9, "messages": [{"role": "user", "content": "x"}])", 529},
    {"/api/chat", R"({"messages": [{"role": "user", "content": "x"}])"},
    {"/api/generate", R"({"prompt": "x")"},
    {"/api/generate", R"({"raw": true, "prompt": "x")"},
    {"/completion", R"({"prompt": "x")"},
};

class LostAnswersTest : public testing::TestWithParam<Asked> {
 protected:
  LostAnswersTest() {
    door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
      listener.begin("tiny", 3, fake_tokenizer());
      for (size_t i = 0; i < request.n; ++i) listener.content(i, "half of");
      listener.end({ErrorCode::kOutOfMemory, "no page is left"});
    };
  }
  std::shared_ptr<FakeExchange> ask(bool stream) {
    return door.post(GetParam().path,
                     std::string(GetParam().body) + (stream ? R"(, "stream": true})" : R"(, "stream": false})"));
  }

  FakeDoor door;
};

INSTANTIATE_TEST_SUITE_P(Protocols, LostAnswersTest, testing::ValuesIn(kAsked));

TEST_P(LostAnswersTest, FailureBeforeTheFirstByteIsAnErrorStatus) {
  const auto exchange = ask(false);
  EXPECT_EQ(exchange->status, GetParam().status) << exchange->body;
  EXPECT_THAT(exchange->body, HasSubstr("no page is left"));
  EXPECT_TRUE(exchange->json().contains("error"));
  bool says_when = false;
  for (const auto& [name, value] : exchange->headers) says_when |= name == "Retry-After";
  EXPECT_TRUE(says_when);
}

TEST_P(LostAnswersTest, FailureDuringAStreamIsItsLastEvent) {
  const auto exchange = ask(true);
  EXPECT_EQ(exchange->status, 200);
  EXPECT_TRUE(exchange->ended);
  EXPECT_THAT(exchange->body, HasSubstr("half of"));
  EXPECT_THAT(exchange->body, HasSubstr("no page is left"));
  const std::string last = exchange->body.substr(exchange->body.find("no page is left"));
  EXPECT_THAT(last, Not(HasSubstr("half of")));
  for (const char* reason : {R"("finish_reason":"length")", R"("finish_reason":"stop")",
                             R"("stop_reason":"max_tokens")", R"("stop_reason":"end_turn")", R"("done":true)",
                             R"("stop":true)", "[DONE]", "response.completed", "response.incomplete", "message_stop"}) {
    EXPECT_THAT(exchange->body, Not(HasSubstr(reason)));
  }
}

}  // namespace
}  // namespace ibid::serve
