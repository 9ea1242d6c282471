// The events of several prompts become those of one response.
#include "server/protocol/prompts.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

// Records the texts, and calls on_content() with each of them.
struct RecordingReply final : AnswerListener {
  void begin(const std::string&, size_t, std::shared_ptr<const Tokenizer>) override { ++n_begun; }
  void content(size_t i, std::string_view text) override {
    texts += std::to_string(i) + std::string(text) + " ";
    if (on_content) on_content(text);
  }
  void reasoning(size_t, std::string_view) override {}
  void tool_call(size_t, size_t, std::string_view, std::string_view) override {}
  void tool_arguments(size_t, size_t, std::string_view) override {}
  void answer(size_t, const Answer&) override {}
  void end(const Status& status) override { ends.push_back(status.code()); }

  std::function<void(std::string_view text)> on_content;
  std::string texts;
  int n_begun = 0;
  std::vector<ErrorCode> ends;
};

struct TwoPrompts {
  TwoPrompts() {
    backend.keep_listeners = true;
    backend.script = [](const AnswerRequest&, AnswerListener& listener) { listener.begin("tiny", 3, nullptr); };
    start_prompts(backend, AnswerRequest(), {Prompt("a"), Prompt("b")}, reply, gone.get_token());
  }
  AnswerListener& listener(size_t prompt) { return *backend.listeners.at(prompt); }

  std::stop_source gone;
  std::shared_ptr<RecordingReply> reply = std::make_shared<RecordingReply>();
  FakeBackend backend;
};

// If an event were sent under a lock, the second prompt would wait for the first one's event here, for ever.
TEST(PromptsTest, EventOfAPromptDoesNotWaitForAnotherPrompt) {
  TwoPrompts f;
  std::promise<void> is_sending, may_return;
  f.reply->on_content = [&](std::string_view text) {
    if (text != "one") return;
    is_sending.set_value();
    may_return.get_future().wait();
  };
  const std::future<void> first = std::async(std::launch::async, [&] { f.listener(0).content(0, "one"); });
  is_sending.get_future().wait();
  f.listener(1).content(0, "two");
  f.listener(1).content(0, "three");
  f.listener(1).end({});
  EXPECT_EQ(f.reply->texts, "0one ") << "the response receives one event at a time";
  may_return.set_value();
  first.wait();
  EXPECT_EQ(f.reply->texts, "0one 1two 1three ");
  f.listener(0).end({});
  EXPECT_EQ(f.reply->n_begun, 1);
  EXPECT_EQ(f.reply->ends, std::vector{ErrorCode::kOk});
}

TEST(PromptsTest, LostClientEndsPromptsWithinAnEvent) {
  TwoPrompts f;
  f.reply->on_content = [&](std::string_view) { f.gone.request_stop(); };
  const std::stop_callback ends_second(f.backend.stops.at(1), [&] {
    f.listener(1).end({ErrorCode::kCancelled, "gone"});
  });
  f.listener(0).content(0, "one");
  EXPECT_TRUE(f.reply->ends.empty());
  f.listener(0).end({});
  EXPECT_EQ(f.reply->ends, std::vector{ErrorCode::kCancelled});
}

}  // namespace
}  // namespace ibid::serve
