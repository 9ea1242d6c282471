#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/service/service_fixture.h"
#include "tests/support/fake_model.h"

namespace ibid::serve {
namespace {

// Blocks the model in its passes until it is opened.
class Held {
 public:
  explicit Held(FakeModel& model) {
    model.before_layer = [this](size_t, size_t) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return is_open_; });
      return Status();
    };
  }
  ~Held() { open(); }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
};

struct Kind {
  const char* name;
  FakeModel::Options options;
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class ShortMemoryTest : public testing::TestWithParam<Kind> {
 protected:
  // The most memory that n sequences of this many positions use while they are computed.
  size_t budget(size_t n, size_t positions) const {
    return n * FakeModel(GetParam().options).kv_layout().work_bytes(positions);
  }
  // The least memory that such sequences use.
  size_t least(size_t n, size_t positions) const {
    const KvLayout layout = FakeModel(GetParam().options).kv_layout();
    return n * (layout.bytes_for(positions) + KvLayout::kStatesAtWork * layout.state_bytes());
  }
  // Opens `held` once all n requests were admitted.
  static void open_with(Held& held, const std::vector<std::shared_ptr<Heard>>& all, size_t n) {
    const auto n_begun = [&] {
      return std::ranges::count_if(all, [](const auto& heard) { return heard->has_begun(); });
    };
    while (static_cast<size_t>(n_begun()) < n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    held.open();
  }
  // Returns this many letters, each different from the next.
  static Tokens letters(const ServiceFixture& f, size_t n) {
    Tokens reply;
    for (size_t i = 0; i < n; ++i) reply.push_back(f.chat.ids(std::string(1, static_cast<char>('a' + i % 26))).front());
    return reply;
  }
  static std::string text_of_letters(size_t n) {
    std::string text;
    for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + i % 26);
    return text;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, ShortMemoryTest,
                         testing::Values(Kind{"attention", {.max_seq_len = 2048}},
                                         Kind{"windows", {.max_seq_len = 2048, .window = 100}},
                                         Kind{"states", {.max_seq_len = 2048, .recurrent = true}},
                                         Kind{"both", {.max_seq_len = 2048, .recurrent = true, .window = 100}}),
                         [](const auto& kind) { return kind.param.name; });

// Prompts of all lengths, with and without a common prefix, in a pool for three of them.
TEST_P(ShortMemoryTest, AdmittedAnswerNeverRunsOutOfMemory) {
  ServiceFixture f(ServiceFixture::quiet(), kChatMl, GetParam().options, budget(3, 700));
  Held held(*f.chat.model);
  constexpr size_t kRequests = 24;
  std::vector<std::shared_ptr<Heard>> all;
  for (size_t i = 0; i < kRequests; ++i) {
    AnswerRequest request = ask({user(std::string(11 * i + i % 3, 'x'))}, i % 2 == 0 ? "a" : "b");
    request.options.max_tokens = request.options.min_tokens = 30 + 7 * (i % 5);
    request.n = i % 6 == 5 ? 3 : 1;
    all.push_back(f.start(request));
  }
  held.open();
  for (size_t i = 0; i < kRequests; ++i) {
    ASSERT_TRUE(all[i]->wait().ok()) << i << ' ' << all[i]->wait().to_string();
    for (size_t answer = 0; answer < all[i]->n_answers(); ++answer) {
      EXPECT_EQ(all[i]->answer_of(answer).usage.n_decoded, 30 + 7 * (i % 5)) << i;
    }
  }
  EXPECT_EQ(f.service->stats().n_retried, 0u) << "each had enough memory";
}

// The answers have no max_tokens, so both are admitted; then there is memory for only one.
TEST_P(ShortMemoryTest, AnswerOutOfMemoryResumesWhenOthersHaveEnded) {
  AdmissionOptions options = ServiceFixture::quiet();
  options.expected_answer_tokens = 1;
  constexpr size_t kSaid = 500;
  for (const size_t n : {1u, 2u}) {
    // KV before a window is freed, so such answers need less.
    ServiceFixture f(options, kChatMl, GetParam().options, least(2 * n, GetParam().options.window > 0 ? 260 : 400));
    f.chat.say({letters(f, kSaid)});
    Held held(*f.chat.model);
    AnswerRequest request = ask({user("x")});
    request.options.max_tokens = 0;
    request.guard = false;
    request.options.speculate = false;
    request.options.n_logprobs = 1;
    request.n = n;
    std::vector<std::shared_ptr<Heard>> all;
    for (const char* name : {"a", "b"}) {
      request.cache_namespace = name;
      all.push_back(f.start(request));
    }
    open_with(held, all, 2);
    size_t most_accepted = 0;
    for (const auto& heard : all) {
      ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
      for (size_t i = 0; i < n; ++i) {
        const Answer& answer = heard->answer_of(i);
        most_accepted = std::max(most_accepted, answer.usage.n_accepted);
        // The prompt is prefilled in a few passes.
        EXPECT_LE(answer.work.n_forward + answer.usage.n_accepted, kSaid + 10) << "each verified token saves a pass";
        EXPECT_EQ(heard->said(i), text_of_letters(kSaid)) << "nothing is emitted twice, and nothing is missing";
        EXPECT_EQ(answer.finish_reason, FinishReason::kStop);
        EXPECT_EQ(answer.usage.n_decoded, kSaid + 1);
      }
    }
    const size_t n_retried = f.service->stats().n_retried;
    if (n == 1) {
      EXPECT_GE(n_retried, 1u);
    }
    // If n is 2, the four answers may run one after the other; memory then suffices. How many run together depends on
    // how evenly the answers proceeded before memory ran out.
    if (n_retried > 0) {
      EXPECT_GT(most_accepted, 0u) << "tokens sampled before are verified, several in a pass";
    }
  }
}

// A repeated attempt draws the same random numbers.
TEST_P(ShortMemoryTest, RetriedAnswerSamplesTheSameTokensAsOnAnIdleServer) {
  AdmissionOptions options = ServiceFixture::quiet();
  options.expected_answer_tokens = 1;
  AnswerRequest request = ask({user("x")});
  request.options = {.sampler = {.temperature = 1.5, .seed = 7}, .max_tokens = 0, .min_tokens = 300};
  request.options.sampler.logit_bias[FakeTokenizer().im_end] = 100;
  ServiceFixture quiet(options, kChatMl, GetParam().options);
  const Answer wanted = quiet.answer(request);
  ASSERT_EQ(wanted.usage.n_decoded, 301u);
  ServiceFixture f(options, kChatMl, GetParam().options, least(2, 250));
  Held held(*f.chat.model);
  std::vector<std::shared_ptr<Heard>> all;
  for (const char* name : {"a", "b", "c"}) {
    request.cache_namespace = name;
    all.push_back(f.start(request));
  }
  open_with(held, all, 2);
  for (const auto& heard : all) {
    ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
    EXPECT_EQ(heard->answer_of().text, wanted.text);
    EXPECT_EQ(heard->answer_of().finish_reason, wanted.finish_reason);
  }
  EXPECT_GE(f.service->stats().n_retried, 1u);
}

TEST_P(ShortMemoryTest, AnswersThatDoNotFitTogetherRunOneAfterTheOther) {
  ServiceFixture f(ServiceFixture::quiet(), kChatMl, GetParam().options, budget(1, 230));
  f.chat.say({letters(f, 150)});
  AnswerRequest request = ask({user("x")});
  request.options.max_tokens = 160;
  request.n = 5;
  const auto heard = f.start(request);
  ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
  for (size_t i = 0; i < request.n; ++i) EXPECT_EQ(heard->said(i), text_of_letters(150)) << i;
}

TEST_P(ShortMemoryTest, SingleAnswerWithTooLittleMemoryIsAnError) {
  const size_t page = FakeModel(GetParam().options).kv_layout().page_bytes();
  ServiceFixture f(ServiceFixture::quiet(), kChatMl, GetParam().options, budget(1, 64) + page);
  AnswerRequest request = ask({user("x")});
  request.options.max_tokens = request.options.min_tokens = 1000;
  const auto heard = f.start(request);
  EXPECT_EQ(heard->wait().code(), ErrorCode::kOutOfMemory) << heard->wait().to_string();
  EXPECT_EQ(heard->n_answers(), 0u) << "an incomplete answer is not reported";
  ASSERT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(20)));
  EXPECT_EQ(f.service->stats().n_failed, 1u);
}

}  // namespace
}  // namespace ibid::serve
