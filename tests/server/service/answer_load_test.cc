#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <random>
#include <thread>

#include "server/store/cache_namespace.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

// Blocks the model before its passes until open() is called. (The semaphore of libstdc++ 12 can lose a wake-up.)
class Gate {
 public:
  explicit Gate(FakeModel& model) {
    model.before_layer = [this](size_t, size_t layer) {
      std::unique_lock lock(mutex_);
      if (layer == 0 && !is_open_) {
        ++n_held_;
        changed_.notify_all();
        changed_.wait(lock, [this] { return is_open_ || n_passes_ > 0; });
        if (n_passes_ > 0) --n_passes_;
      }
      return Status();
    };
  }
  ~Gate() { open(); }
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  void let_pass() {
    const std::lock_guard lock(mutex_);
    ++n_passes_;
    changed_.notify_all();
  }
  void wait_until_held(int n = 1) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, n] { return n_held_ >= n; });
  }

 private:
  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  bool is_open_ = false;
  int n_held_ = 0, n_passes_ = 0;
};

AdmissionOptions one_at_a_time() {
  AdmissionOptions options = ServiceFixture::quiet();
  options.max_running = 1;
  return options;
}

// An answer that is stopped within a character ends with U+FFFD.
std::string whole_characters(std::string text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  while (text.ends_with(kReplacement)) text.resize(text.size() - kReplacement.size());
  return text;
}

TEST(AnswerLoadTest, CancelAtAnyEventLeavesTheConversationIntact) {
  const auto history = [](ServiceFixture& f) {
    Json messages = Json::array({user("question one")});
    messages.push_back(make_message(Role::kAssistant, f.answer(ask(messages)).content));
    messages.push_back(user(std::string(100, 'y')));
    return messages;
  };
  ServiceFixture reference;
  const auto whole = reference.start(ask(history(reference)));
  ASSERT_TRUE(whole->wait().ok());
  const size_t n_events = whole->events().size();
  ASSERT_GT(n_events, 4u);
  size_t n_cancelled = 0;
  for (size_t k = 0; k <= n_events; ++k) {
    ServiceFixture f;
    const Json messages = history(f);
    std::stop_source client;
    if (k == 0) client.request_stop();
    auto heard = std::make_shared<Heard>();
    heard->on_event = [&, n = size_t{0}](const std::string&) mutable {
      if (++n == k) client.request_stop();
    };
    f.service->start(ask(messages), heard, client.get_token());
    const Status& status = heard->wait();
    EXPECT_TRUE(status.ok() || status.code() == ErrorCode::kCancelled) << status.to_string();
    n_cancelled += status.ok() ? 0 : 1;
    EXPECT_TRUE(whole->said().starts_with(whole_characters(heard->said()))) << heard->said();
    ASSERT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(10)));
    const Answer again = f.answer(ask(messages));
    EXPECT_EQ(again.content, whole->said());
    EXPECT_EQ(again.usage.n_prompt, whole->n_prompt());
  }
  EXPECT_GT(n_cancelled, 1u);
}

TEST(AnswerLoadTest, DisconnectedClientLeavesTheQueueAtOnce) {
  ServiceFixture f(one_at_a_time());
  Gate gate(*f.chat.model);
  const auto first = f.start(ask({user("x")}));
  gate.wait_until_held();
  std::stop_source client;
  const auto second = f.start(ask({user("y")}), client.get_token());
  EXPECT_EQ(f.service->stats().n_waiting, 1u);
  client.request_stop();
  EXPECT_EQ(second->wait().code(), ErrorCode::kCancelled) << "while the model is blocked";
  EXPECT_FALSE(second->has_begun());
  EXPECT_EQ(f.service->stats().n_waiting, 0u) << "it left the queue before its end was reported";
  gate.open();
  EXPECT_TRUE(first->wait().ok());
}

TEST(AnswerLoadTest, DisconnectStopsThePrefill) {
  ServiceFixture f;
  std::atomic<size_t> n_passes = 0;
  std::stop_source client;
  f.chat.model->before_layer = [&](size_t, size_t layer) {
    if (layer == 0 && ++n_passes == 3) client.request_stop();
    return Status();
  };
  const auto heard = f.start(ask({user(std::string(1000, 'x'))}), client.get_token());
  EXPECT_EQ(heard->wait().code(), ErrorCode::kCancelled);
  EXPECT_LE(n_passes, 4u);
  f.chat.model->take_fed();
  ASSERT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(10)));
  EXPECT_EQ(f.service->stats().n_cancelled, 1u);
}

TEST(AnswerLoadTest, ShutdownIsReportedToAllClients) {
  ServiceFixture f(one_at_a_time());
  Gate gate(*f.chat.model);
  std::vector<std::shared_ptr<Heard>> all;
  for (int i = 0; i < 4; ++i) all.push_back(f.start(ask({user("x")})));
  gate.wait_until_held();
  f.service->stop_admitting();
  const auto late = f.start(ask({user("x")}));
  EXPECT_EQ(late->wait().code(), ErrorCode::kIo) << "the error is not the client's";
  EXPECT_FALSE(f.service->wait_until_quiet(std::chrono::milliseconds(1)));
  std::thread opens([&] { gate.open(); });
  f.service.reset();
  opens.join();
  for (const auto& heard : all) EXPECT_TRUE(heard->has_ended());
}

TEST(AnswerLoadTest, QueueTimeoutIsReported) {
  ServiceFixture f(one_at_a_time());
  Gate gate(*f.chat.model);
  const auto first = f.start(ask({user("x")}));
  gate.wait_until_held();
  const auto second = f.start(ask({user("y")}));
  f.clock.advance(59'999'000'000);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  EXPECT_FALSE(second->has_ended());
  f.clock.advance(1'000'000);
  EXPECT_EQ(second->wait().code(), ErrorCode::kDeadline);
  EXPECT_FALSE(first->has_ended());
  gate.open();
  EXPECT_TRUE(first->wait().ok()) << "it is running, and there is no total timeout";
}

TEST(AnswerLoadTest, AnswerPastItsDeadlineKeepsItsText) {
  ServiceFixture f;
  Gate gate(*f.chat.model);
  AnswerRequest request = ask({user("x")});
  request.options.max_tokens = 1000;
  request.options.min_tokens = 1000;
  request.deadline = std::chrono::milliseconds(500);
  const auto heard = f.start(request);
  for (int i = 1; i <= 5; ++i) {
    gate.wait_until_held(i);
    gate.let_pass();
  }
  gate.wait_until_held(6);
  f.clock.advance(500'000'000);
  while (f.service->stats().n_running > 0 && !heard->has_ended()) gate.let_pass();
  EXPECT_EQ(heard->wait().code(), ErrorCode::kDeadline);
  EXPECT_FALSE(heard->said().empty());
  ASSERT_EQ(heard->n_answers(), 1u);
  EXPECT_EQ(heard->answer_of().finish_reason, FinishReason::kCancelled);
  gate.open();
  // The emitted text is part of the conversation.
  Json messages = Json::array({user("x"), make_message(Role::kAssistant, heard->said()), user("on")});
  EXPECT_LE(f.answer(ask(messages)).usage.n_prefilled,
            f.chat.ids("<|im_end|>").size() + f.chat.next_prompt("on").size() + 1);
}

TEST(AnswerLoadTest, NamespacesTakeTurnsInTheQueue) {
  ServiceFixture f(one_at_a_time());
  Gate gate(*f.chat.model);
  std::mutex mutex;
  std::string order;
  std::vector<std::shared_ptr<Heard>> all;
  const auto start = [&](const std::string& name) {
    auto heard = std::make_shared<Heard>();
    heard->on_event = [&, name](const std::string& event) {
      const std::lock_guard lock(mutex);
      if (event == "begin") order += name;
    };
    f.service->start(ask({user("x")}, name), heard, {});
    all.push_back(heard);
  };
  start("a");
  gate.wait_until_held();
  for (const char* name : {"a", "a", "a", "b", "c", "b"}) start(name);
  gate.open();
  for (const auto& heard : all) EXPECT_TRUE(heard->wait().ok());
  EXPECT_EQ(order, "aabcaba");
}

TEST(AnswerLoadTest, FullServerRefusesWithRetryAfter) {
  AdmissionOptions options = one_at_a_time();
  options.max_waiting = 1;
  ServiceFixture f(options);
  Gate gate(*f.chat.model);
  const auto first = f.start(ask({user("x")}));
  gate.wait_until_held();
  const auto second = f.start(ask({user("y")}));
  const auto third = f.start(ask({user("z")}));
  EXPECT_EQ(third->wait().code(), ErrorCode::kBusy);
  EXPECT_EQ(f.service->stats().n_refused, 1u);
  EXPECT_GE(third->retry_after(), std::chrono::seconds(1));
  EXPECT_LE(third->retry_after(), std::chrono::seconds(60));
  f.clock.advance(3'000'000'000);
  gate.open();
  EXPECT_TRUE(first->wait().ok());
  EXPECT_TRUE(second->wait().ok());
  EXPECT_EQ(first->queued(), std::chrono::seconds(0));
  EXPECT_EQ(second->queued(), std::chrono::seconds(3)) << "by the service's clock";
}

size_t page_bytes_of_fake() { return ChatFixture().engine->state().pool().layout().page_bytes(); }

TEST(AnswerLoadTest, RequestWaitsForMemoryThatOthersUse) {
  ServiceFixture f(ServiceFixture::quiet(), kChatMl, {}, 6 * page_bytes_of_fake());
  AnswerRequest request = ask({user("x")});
  request.options.max_tokens = 150;
  request.options.min_tokens = 150;
  std::vector<std::shared_ptr<Heard>> all;
  for (const char* name : {"a", "b", "c", "d"}) {
    request.cache_namespace = name;
    all.push_back(f.start(request));
  }
  for (const auto& heard : all) {
    ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
    EXPECT_EQ(heard->answer_of().usage.n_decoded, 150u) << "no answer was truncated";
    EXPECT_EQ(heard->said(), all[0]->said());
  }
}

void wait_for(const ServiceFixture& f, uint64_t n_running, uint64_t n_waiting) {
  for (;;) {
    const ServiceStats stats = f.service->stats();
    if (stats.n_running == n_running && stats.n_waiting == n_waiting) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// A request that waits for memory does not count as running, and owners take turns.
TEST(AnswerLoadTest, NamespacesTakeTurnsForMemory) {
  AdmissionOptions options = ServiceFixture::quiet();
  options.max_running = 2;
  ServiceFixture f(options, kChatMl, {}, 6 * page_bytes_of_fake());
  Gate gate(*f.chat.model);
  std::mutex mutex;
  std::string order;
  std::vector<std::shared_ptr<Heard>> all;
  const auto start = [&](const std::string& name) {
    AnswerRequest request = ask({user("x")}, name);
    request.options.max_tokens = 200;
    auto heard = std::make_shared<Heard>();
    heard->on_event = [&, name](const std::string& event) {
      const std::lock_guard lock(mutex);
      if (event == "begin") order += name.front();
    };
    f.service->start(request, heard, {});
    all.push_back(heard);
  };
  start("a");
  gate.wait_until_held();
  for (int i = 0; i < 3; ++i) start("a");
  wait_for(f, 1, 3);
  start(salted_namespace("a", "other"));  // a salt is not another owner
  wait_for(f, 1, 4);
  start("b");
  wait_for(f, 1, 5);
  gate.open();
  for (const auto& heard : all) EXPECT_TRUE(heard->wait().ok());
  EXPECT_EQ(order, "aabaaa");
}

TEST(AnswerLoadTest, ConversationsSurviveAnAnswerLongerThanKeepAlive) {
  ServiceFixture f;
  f.answer(ask({user("known")}));
  ASSERT_TRUE(f.host->set_keep_alive("fake", std::chrono::seconds(30)).ok());
  Gate gate(*f.chat.model);
  const auto running = f.start(ask({user("x")}));
  gate.wait_until_held();
  f.clock.advance(60'000'000'000);
  f.host->unload_idle();
  f.dir.write("fake.gguf", "another file");
  EXPECT_EQ(f.host->try_get("fake").value(), nullptr) << "the old file still has a lease";
  EXPECT_EQ(f.service->stats().conversations.n_known, 1u);
  EXPECT_TRUE(f.host->list()[0].is_loaded);
  gate.open();
  EXPECT_TRUE(running->wait().ok());
}

TEST(AnswerLoadTest, KeepAliveZeroUnloadsAfterTheAnswer) {
  ServiceFixture f;
  AnswerRequest request = ask({user("x")});
  request.keep_alive = std::chrono::milliseconds(0);
  f.answer(request);
  while (f.host->list()[0].is_loaded || f.service->stats().conversations.n_known > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  request.keep_alive.reset();
  f.answer(request);
  EXPECT_TRUE(f.host->list()[0].is_loaded);
}

// A replaced file is loaded for the next request, even if other clients send requests all the time.
TEST(AnswerLoadTest, RequestForAReplacedFileWaitsForRunningAnswers) {
  ServiceFixture f;
  Gate gate(*f.chat.model);
  const auto running = f.start(ask({user("x")}));
  gate.wait_until_held();
  f.dir.write("fake.gguf", "another file");
  const auto next = f.start(ask({user("y")}));
  const auto gone = f.start(ask({user("z")}));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(next->has_begun());
  std::stop_source client;
  const auto cancelled = f.start(ask({user("w")}), client.get_token());
  client.request_stop();
  EXPECT_EQ(cancelled->wait().code(), ErrorCode::kCancelled) << "it does not wait for that";
  gate.open();
  EXPECT_TRUE(running->wait().ok());
  EXPECT_TRUE(next->wait().ok());
  EXPECT_TRUE(gone->wait().ok());
  EXPECT_EQ(f.host->list()[0].file_bytes, 12u) << "the new file";
}

TEST(AnswerLoadTest, TokenCountRequestsDoNotWaitForAnswers) {
  ServiceFixture f(one_at_a_time());
  Gate gate(*f.chat.model);
  const auto running = f.start(ask({user("x")}));
  const auto waiting = f.start(ask({user("y")}));
  gate.wait_until_held();
  EXPECT_EQ(f.count_prompt(ask({user("x")})), f.chat.prompt("x").size());
  EXPECT_FALSE(running->has_ended());
  gate.open();
  EXPECT_TRUE(waiting->wait().ok());
}

TEST(AnswerLoadTest, EqualHistoriesFromManyClientsGetTheSameAnswer) {
  ServiceFixture f;
  f.chat.say({f.chat.ids("Hello world")});  // encoding its text gives the same tokens
  Json messages = Json::array({user("question one")});
  messages.push_back(make_message(Role::kAssistant, f.answer(ask(messages)).content));
  messages.push_back(user("question two"));
  std::vector<std::shared_ptr<Heard>> all;
  for (int i = 0; i < 12; ++i) all.push_back(f.start(ask(messages)));
  for (const auto& heard : all) {
    ASSERT_TRUE(heard->wait().ok());
    EXPECT_EQ(heard->n_prompt(), all[0]->n_prompt());
    EXPECT_EQ(heard->said(), all[0]->said());
  }
}

struct Client {
  explicit Client(uint64_t seed) : random(seed) {}

  void run(ServiceFixture& f, size_t number) {
    const std::string name = "n" + std::to_string(number % 5);
    for (int turn = 0; turn < 3; ++turn) {
      const std::string text = "client " + std::to_string(number) + " turn " + std::to_string(turn);
      std::stop_source gone;
      auto heard = std::make_shared<Heard>();
      const size_t cancel_at = random() % 3 == 0 ? random() % 8 : 1000;
      heard->on_event = [&gone, cancel_at, n = size_t{0}](const std::string&) mutable {
        if (n++ == cancel_at) gone.request_stop();
      };
      f.service->start(ask({user(text)}, name), heard, gone.get_token());
      if (random() % 4 == 0) gone.request_stop();
      const Status& status = heard->wait();
      if (status.ok()) {
        whole.emplace_back(text, heard->answer_of().text);
      } else if (status.code() != ErrorCode::kCancelled) {
        ADD_FAILURE() << status.to_string();
      } else {
        parts.emplace_back(text, heard->said());
      }
    }
  }

  std::mt19937_64 random;
  std::vector<std::pair<std::string, std::string>> whole, parts;  // question, answer
};

TEST(AnswerLoadTest, SixtyFourClientsGetTheirOwnAnswers) {
  ServiceFixture f;
  std::vector<Client> clients;
  for (uint64_t i = 0; i < 64; ++i) clients.emplace_back(i);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) threads.emplace_back([&, i] { clients[i].run(f, i); });
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(60)));
  ChatFixture lone;
  size_t n_whole = 0;
  for (const Client& client : clients) {
    n_whole += client.whole.size();
    for (const auto& [question, answer] : client.whole) {
      ChatSession session = lone.session();
      EXPECT_EQ(must(session.send(question, parsing(greedy(12)))).text, answer) << question;
    }
    for (const auto& [question, part] : client.parts) {
      ChatSession session = lone.session();
      EXPECT_TRUE(must(session.send(question, parsing(greedy(12)))).text.starts_with(whole_characters(part)))
          << question;
    }
  }
  EXPECT_GT(n_whole, 20u);
  const ServiceStats stats = f.service->stats();
  EXPECT_EQ(stats.n_answers + stats.n_cancelled + stats.n_bad + stats.n_failed, 64u * 3);
  EXPECT_EQ(stats.n_running + stats.n_waiting, 0u);
}

}  // namespace
}  // namespace ibid::serve
