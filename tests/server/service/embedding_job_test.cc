#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "runtime/embedding/embeddings.h"
#include "tests/server/service/service_fixture.h"
#include "tests/server/talking_model.h"

namespace ibid::serve {
namespace {

using testing::HasSubstr;

class HeardEmbeddings final : public EmbeddingListener {
 public:
  void reply(EmbeddingReply reply) override { note(Status(), std::move(reply)); }
  void fail(const Status& status, std::chrono::seconds) override { note(status, {}); }
  const Status& wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return status_.has_value(); });
    return *status_;
  }
  // Call after wait().
  const EmbeddingReply& reply() const { return reply_; }

 private:
  void note(const Status& status, EmbeddingReply reply) {
    {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(status_.has_value()) << "end() is called once";
      reply_ = std::move(reply);
      status_ = status;
    }
    ended_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<Status> status_;
  EmbeddingReply reply_;
};

// The model "embed" makes embeddings, "talk" answers.
struct EmbeddingService {
  explicit EmbeddingService(const AdmissionOptions& options = ServiceFixture::quiet(), size_t context = 0) {
    write_embedding_model(dir.file("embed.gguf"));
    write_talking_model(dir.file("talk.gguf"));
    const auto loader = [context](const std::string& path) {
      return Engine::load(path, {.n_threads = 2, .max_seq_len = context});
    };
    auto created = ModelHost::create({ModelSource(dir.file("embed.gguf")), ModelSource(dir.file("talk.gguf"))}, loader,
                                     system_clock(), {});
    CHECK(created.ok()) << created.status().message();
    host = *std::move(created);
    service = std::make_unique<Service>(*host, system_clock(), options);
  }
  std::shared_ptr<HeardEmbeddings> start(EmbeddingRequest request, std::stop_token stop = {}) const {
    auto heard = std::make_shared<HeardEmbeddings>();
    service->embed(std::move(request), heard, std::move(stop));
    return heard;
  }
  static EmbeddingRequest large() {
    EmbeddingRequest request;
    request.inputs.assign(2000, std::string(400, 'x'));
    return request;
  }

  TempDir dir;
  std::unique_ptr<ModelHost> host;
  std::unique_ptr<Service> service;
};

TEST(EmbeddingJobTest, VectorsEqualTheEnginesInInputOrder) {
  const EmbeddingService s;
  EmbeddingRequest request;
  request.inputs = {std::string("one"), Tokens{1, 2, 3}, std::string("three and more")};
  const auto heard = s.start(request);
  ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
  const EmbeddingReply& reply = heard->reply();
  EXPECT_EQ(reply.model, "embed");
  EXPECT_EQ(reply.n_prompt, 4u + 3 + 15) << "tokens are used unchanged";
  const auto engine = (*s.host->get("embed"))->engine();
  const Tokenizer& tokenizer = engine->state().tokenizer();
  const auto wanted =
      embed(engine->state(), {ids_to_embed(tokenizer, "one"), {1, 2, 3}, ids_to_embed(tokenizer, "three and more")});
  ASSERT_TRUE(wanted.ok());
  EXPECT_EQ(reply.vectors, *wanted);
  const ServiceStats stats = s.service->stats();
  EXPECT_EQ(stats.n_answers, 1u);
  EXPECT_EQ(stats.n_prompt, 22u);
  EXPECT_EQ(stats.n_running, 0u);
}

TEST(EmbeddingJobTest, TextAndTokenPiecesAreOneInput) {
  const EmbeddingService s;
  const auto engine = (*s.host->get("embed"))->engine();
  Tokens ids = engine->state().tokenizer().encode("ab", TextOrigin::kTemplate);
  ids.insert(ids.end(), {1, 2});
  EmbeddingRequest request;
  request.inputs = {PromptPieces{"ab", Tokens{1, 2}}, ids};
  const auto heard = s.start(request);
  ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
  ASSERT_EQ(heard->reply().vectors.size(), 2u);
  EXPECT_EQ(heard->reply().vectors[0], heard->reply().vectors[1]);
}

TEST(EmbeddingJobTest, InvalidEmbeddingRequestsAreReported) {
  const EmbeddingService s(ServiceFixture::quiet(), 64);
  EmbeddingRequest request;
  request.inputs = {std::string("a")};
  request.model = "talk";
  EXPECT_EQ(s.start(request)->wait().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(s.start(request)->wait().message(), HasSubstr("talk.gguf cannot make embeddings"));
  request.model = "nobody";
  EXPECT_EQ(s.start(request)->wait().code(), ErrorCode::kNotFound);
  request.model = "embed";
  request.n_dims = 1000;
  EXPECT_EQ(s.start(request)->wait().code(), ErrorCode::kInvalidArgument);
  request.n_dims = 0;
  request.inputs = {std::string("a"), std::string(64, 'b')};
  EXPECT_EQ(s.start(request)->wait().code(), ErrorCode::kContextFull);
  EXPECT_THAT(s.start(request)->wait().message(), HasSubstr("text 2 of 2 has 65 tokens, the context has room for 64"));
  request.cuts = true;
  EXPECT_TRUE(s.start(request)->wait().ok());
  request.inputs = {Tokens{1, 259}};
  EXPECT_EQ(s.start(request)->wait().code(), ErrorCode::kInvalidArgument);
  // A failure is counted after its client was notified.
  for (int i = 0; i < 1000 && s.service->stats().n_bad < 6; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(s.service->stats().n_bad, 6u);
  EXPECT_EQ(s.service->stats().n_failed, 0u);
  // The model makes embeddings only and cannot answer.
  const auto heard = std::make_shared<Heard>();
  AnswerRequest ask_it = ask(Json::array({user("hello")}));
  ask_it.model = "embed";
  s.service->start(ask_it, heard, {});
  EXPECT_EQ(heard->wait().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(heard->wait().message(), HasSubstr("makes embeddings only, no answers"));
}

TEST(EmbeddingJobTest, JobEndsWhenTheClientDisconnectsOrAtItsDeadline) {
  const EmbeddingService s;
  std::stop_source gone;
  const auto heard = s.start(EmbeddingService::large(), gone.get_token());
  gone.request_stop();
  EXPECT_EQ(heard->wait().code(), ErrorCode::kCancelled);
  EmbeddingRequest late = EmbeddingService::large();
  late.deadline = std::chrono::milliseconds(50);
  EXPECT_EQ(s.start(late)->wait().code(), ErrorCode::kDeadline);
  EXPECT_TRUE(s.service->wait_until_quiet(std::chrono::milliseconds::max()));
  EXPECT_EQ((*s.host->get("embed"))->engine()->state().pool().bytes_in_use(), 0u);
  EXPECT_EQ(s.service->stats().n_cancelled, 2u);
}

TEST(EmbeddingJobTest, JobWaitsInTheQueueAndIsRefusedIfTheQueueIsFull) {
  AdmissionOptions options = ServiceFixture::quiet();
  options.max_running = 1;
  options.max_waiting = 1;
  const EmbeddingService s(options);
  std::stop_source gone;
  const auto first = s.start(EmbeddingService::large(), gone.get_token());
  EmbeddingRequest small;
  small.inputs = {std::string("a")};
  const auto second = s.start(small);
  EXPECT_EQ(s.start(small)->wait().code(), ErrorCode::kBusy);
  gone.request_stop();
  EXPECT_EQ(first->wait().code(), ErrorCode::kCancelled);
  EXPECT_TRUE(second->wait().ok());
}

TEST(EmbeddingJobTest, ShutdownIsReportedToWaitingRequests) {
  std::shared_ptr<HeardEmbeddings> heard;
  {
    const EmbeddingService s;
    heard = s.start(EmbeddingService::large());
  }
  EXPECT_EQ(heard->wait().code(), ErrorCode::kCancelled);
}

}  // namespace
}  // namespace ibid::serve
