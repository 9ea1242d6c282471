// A server that begins again with the cache directory of the one before.
#include <gtest/gtest.h>

#include "base/token_prefix.h"
#include "cache/tier/fingerprint.h"
#include "tests/serve/service/service_fixture.h"

namespace ibid::serve {
namespace {

EngineParts with_directory(const TempDir& dir) {
  EngineParts parts;
  parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
  parts.cache_directory = dir.file("cache");
  parts.cache_directory_bytes = 64u << 20;
  return parts;
}

struct Restarted : ServiceFixture {
  Restarted(const TempDir& cache, std::vector<Tokens> replies)
      : ServiceFixture(quiet(), kChatMl, {}, 64u << 20, with_directory(cache)) {
    chat.say(std::move(replies));
  }
};

// The known conversations are gone, so a history is rendered and encoded. What its ids have in common with those that
// were read comes from the directory.
Usage second_life(const std::vector<Tokens>& replies, size_t& n_common) {
  const TempDir cache;
  Json messages = Json::array();
  Tokens ids;
  {
    Restarted before(cache, replies);
    for (size_t i = 0; i + 1 < replies.size(); ++i) {
      messages.push_back(user("question " + std::to_string(i) + std::string(100, 'x')));
      const Answer answer = before.answer(ask(messages));
      messages.push_back(make_message(Role::kAssistant, answer.content));
    }
    messages.push_back(user("and on"));
    before.chat.model->take_fed();
    const Answer last = before.answer(ask(messages));
    EXPECT_GT(last.usage.n_cached, 0u);
    for (const FakeModel::Fed& fed : before.chat.model->fed()) {
      ids.resize(fed.position);
      ids.insert(ids.end(), fed.tokens.begin(), fed.tokens.end());
    }
    EXPECT_TRUE(before.service->wait_until_quiet(std::chrono::seconds(10)));
  }
  Restarted after(cache, replies);
  const Tokens encoded =
      after.chat.engine->tokenizer().encode(after.service->render_prompt(ask(messages)).value(), TextOrigin::kTemplate);
  n_common = common_prefix_length(encoded, ids);
  return after.answer(ask(messages)).usage;
}

TEST(RestartTest, AHistoryThatIsEncodedAsItWasSaidIsNotReadAgain) {
  const FakeTokenizer tokenizer;
  size_t n_common = 0;
  const Usage usage = second_life({tokenizer.template_ids("Hello world"), tokenizer.template_ids("the"), {}}, n_common);
  EXPECT_GE(n_common, usage.n_prompt);
  EXPECT_EQ(usage.n_prefilled, 1u) << "the last id, for its logits";
  EXPECT_EQ(usage.n_from_disk, usage.n_prompt - 1);
}

TEST(RestartTest, AnAnswerThatIsEncodedOtherwiseIsReadFromThereOn) {
  const FakeTokenizer tokenizer;
  size_t n_common = 0;
  const Usage usage = second_life({tokenizer.template_ids("Hello world"), tokenizer.sampled({"a", "b"}), {}}, n_common);
  EXPECT_LT(n_common, usage.n_prompt);
  EXPECT_EQ(usage.n_cached, n_common);
}

}  // namespace
}  // namespace ibid::serve
