#include "server/service/model_host.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

constexpr size_t kHostedKvBytes = 1u << 20;

struct HostFixture {
  explicit HostFixture(ModelHostOptions options = {}, std::vector<std::string> names = {"one.gguf", "two.gguf"}) {
    std::vector<ModelSource> sources;
    for (const std::string& name : names) sources.emplace_back(dir.write(name, "0123456789"));
    auto created = ModelHost::create(
        sources, [this](const std::string& path) { return load(path); }, clock, options);
    EXPECT_TRUE(created.ok()) << created.status().message();
    host = *std::move(created);
  }

  Result<std::shared_ptr<Engine>> load(const std::string& path) {
    ++n_loads;
    if (path.find("bad") != path.npos) return {ErrorCode::kBadMagic, path + ": no model"};
    return ChatFixture(kChatMl, {}, kHostedKvBytes).engine;
  }

  void unload(const std::string& name) {
    ASSERT_TRUE(host->set_keep_alive(name, std::chrono::milliseconds(0)).ok());
    host->unload_idle();
  }

  TempDir dir;
  ManualClock clock;
  std::atomic<int> n_loads = 0;
  std::unique_ptr<ModelHost> host;
};

const Engine* engine_of(const Result<ModelLeasePtr>& lease) {
  return lease.ok() && *lease != nullptr ? (*lease)->engine().get() : nullptr;
}

TEST(ModelHostTest, ModelIsLoadedOnItsFirstRequest) {
  HostFixture f;
  EXPECT_EQ(f.n_loads, 1) << "the first model, in create()";
  const Engine* one = engine_of(f.host->get("one"));
  EXPECT_EQ(engine_of(f.host->get("")), one) << "no name means the first";
  EXPECT_EQ(f.host->get_loaded("two").value(), nullptr);
  const Engine* two = engine_of(f.host->get("two"));
  EXPECT_NE(one, two);
  EXPECT_EQ(engine_of(f.host->get("two")), two);
  EXPECT_EQ(engine_of(f.host->get_loaded("two")), two);
  EXPECT_EQ(f.n_loads, 2);
  EXPECT_EQ(f.host->list()[1].name, "two");
  EXPECT_TRUE(f.host->list()[1].is_loaded);
  EXPECT_EQ(f.host->list()[1].file_bytes, 10u);
}

TEST(ModelHostTest, UnknownModelErrorListsTheModels) {
  HostFixture f;
  const Status status = f.host->get("three").status();
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_NE(status.message().find("\"three\""), std::string::npos);
  EXPECT_NE(status.message().find("one, two"), std::string::npos);
  EXPECT_EQ(f.host->set_keep_alive("three", std::chrono::milliseconds(0)).code(), ErrorCode::kNotFound);
}

TEST(ModelHostTest, NamesAreCaseInsensitiveAndMayHaveAliasesAndATag) {
  TempDir dir;
  ManualClock clock;
  std::vector<ModelSource> sources;
  sources.emplace_back(dir.write("SmolLM2-135M.Q4_1.gguf", "x"), std::vector<std::string>{"smollm2", "Small"});
  sources.emplace_back(dir.write("small.gguf", "x"));
  sources.emplace_back(dir.write("a:latest.gguf", "x"));
  const auto loader = [](const std::string&) -> Result<std::shared_ptr<Engine>> { return ChatFixture().engine; };
  const auto host = ModelHost::create(sources, loader, clock, {.load_at_once = false}).value();
  for (const char* name : {"", "SmolLM2-135M.Q4_1", "smollm2-135m.q4_1", "smollm2", "SMOLLM2:latest"}) {
    EXPECT_EQ(host->resolve(name).value(), "SmolLM2-135M.Q4_1") << name;
  }
  EXPECT_EQ(host->resolve("SMALL").value(), "small") << "a name takes precedence over an alias";
  EXPECT_EQ(host->resolve("a:latest").value(), "a:latest");
  EXPECT_EQ(host->resolve("smollm").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(host->resolve("smollm2:135m").status().code(), ErrorCode::kNotFound);
}

TEST(ModelHostTest, DuplicateModelNamesAreRefused) {
  ManualClock clock;
  const auto loader = [](const std::string&) -> Result<std::shared_ptr<Engine>> { return ChatFixture().engine; };
  EXPECT_EQ(
      ModelHost::create({ModelSource("a/x.gguf"), ModelSource("b/X.gguf")}, loader, clock, {.load_at_once = false})
          .status()
          .code(),
      ErrorCode::kInvalidArgument);
  EXPECT_EQ(ModelHost::create({}, loader, clock, {}).status().code(), ErrorCode::kInvalidArgument);
}

TEST(ModelHostTest, FailedLoadCanBeRetried) {
  HostFixture f({}, {"one.gguf", "bad.gguf"});
  EXPECT_EQ(f.host->get("bad").status().code(), ErrorCode::kBadMagic);
  EXPECT_EQ(f.host->get("bad").status().code(), ErrorCode::kBadMagic);
  EXPECT_EQ(f.n_loads, 3);
}

// The loader's errors name files of the server's machine, which clients must not see.
TEST(ModelHostTest, LoadErrorForClientsDoesNotNameThePath) {
  std::vector<std::string> remarks;
  ModelHostOptions options;
  options.remark = [&](const std::string& line) { remarks.push_back(line); };
  HostFixture f(options, {"one.gguf", "bad.gguf", "gone.gguf"});
  ASSERT_EQ(std::remove(f.dir.file("gone.gguf").c_str()), 0);
  for (const char* name : {"bad", "gone"}) {
    const Status status = f.host->try_get(name).status();
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_EQ(status.message(), std::string(name) + " cannot be loaded");
    EXPECT_NE(remarks.back().find(f.dir.file(name) + ".gguf"), std::string::npos) << remarks.back();
  }
  EXPECT_EQ(f.host->try_get("none").status().code(), ErrorCode::kNotFound);
  EXPECT_EQ(remarks.size(), 2u);
}

TEST(ModelHostTest, IdleModelsAreUnloadedAndLeasedModelsStay) {
  HostFixture f({.keep_alive = std::chrono::milliseconds(1000)});
  ModelLeasePtr used = f.host->get("one").value();
  const Engine* one = used->engine().get();
  ASSERT_TRUE(f.host->get("two").ok());
  f.clock.advance(999'000'000);
  f.host->unload_idle();
  EXPECT_TRUE(f.host->list()[1].is_loaded);
  f.clock.advance(1'000'000);
  f.host->unload_idle();
  EXPECT_TRUE(f.host->list()[0].is_loaded);
  EXPECT_FALSE(f.host->list()[1].is_loaded);
  EXPECT_EQ(engine_of(f.host->get("one")), one);
  // Idle time starts when the last lease is returned, not when it was taken.
  f.clock.advance(5'000'000'000);
  used = nullptr;
  f.clock.advance(999'000'000);
  EXPECT_EQ(f.host->list()[0].unloads_in, std::chrono::milliseconds(1)) << "a list is no use of the model";
  f.host->unload_idle();
  EXPECT_TRUE(f.host->list()[0].is_loaded);
  f.clock.advance(1'000'000);
  f.host->unload_idle();
  EXPECT_FALSE(f.host->list()[0].is_loaded);
  ASSERT_TRUE(f.host->get("two").ok());
  EXPECT_EQ(f.n_loads, 3);
}

TEST(ModelHostTest, KeepAliveOfTheLastRequestApplies) {
  HostFixture f({.keep_alive = std::chrono::milliseconds(1000)});
  ASSERT_TRUE(f.host->set_keep_alive("one", std::chrono::milliseconds(-1)).ok());
  f.clock.advance(100'000'000'000);
  f.host->unload_idle();
  EXPECT_TRUE(f.host->list()[0].is_loaded);
  ASSERT_TRUE(f.host->set_keep_alive("ONE", std::chrono::milliseconds(200'000)).ok());
  f.host->unload_idle();
  EXPECT_TRUE(f.host->list()[0].is_loaded);
  f.clock.advance(100'000'000'000);
  f.host->unload_idle();
  EXPECT_FALSE(f.host->list()[0].is_loaded);
  ASSERT_TRUE(f.host->get("one").ok());
  f.clock.advance(1'000'000'000);
  f.host->unload_idle();
  EXPECT_FALSE(f.host->list()[0].is_loaded) << "after loading again, the server's keep_alive applies";
}

TEST(ModelHostTest, OnUnloadIsCalledOnlyAfterAllLeasesAreReturned) {
  HostFixture f({.memory_budget_bytes = 2 * kHostedKvBytes, .keep_alive = std::chrono::milliseconds(1)});
  ModelLeasePtr used = f.host->get("one").value();
  std::shared_ptr<Engine> held = used->engine();
  int n_asked = 0;
  f.host->set_on_unload([&](const Engine& engine) {
    ++n_asked;
    if (held.get() == &engine) held.reset();
  });
  f.clock.advance(1'000'000'000);
  f.host->unload_idle();
  EXPECT_EQ(f.host->try_get("two").value(), nullptr) << "the budget does not fit two";
  f.dir.write("one.gguf", "another");
  EXPECT_EQ(f.host->try_get("one").value(), nullptr) << "its file was replaced, and it is in use";
  EXPECT_EQ(n_asked, 0);
  const std::weak_ptr<Engine> watched = held;
  used = nullptr;
  EXPECT_NE(engine_of(f.host->try_get("one")), nullptr);
  EXPECT_EQ(n_asked, 1);
  EXPECT_TRUE(watched.expired());
}

TEST(ModelHostTest, BudgetUnloadsTheLeastRecentlyUsedModel) {
  HostFixture f({.memory_budget_bytes = 2 * kHostedKvBytes + 100}, {"one.gguf", "two.gguf", "three.gguf"});
  ASSERT_TRUE(f.host->get("two").ok());
  f.clock.advance(1);
  ASSERT_TRUE(f.host->get("one").ok());
  f.clock.advance(1);
  const ModelLeasePtr three = f.host->get("three").value();
  EXPECT_TRUE(f.host->list()[0].is_loaded);
  EXPECT_FALSE(f.host->list()[1].is_loaded);
  ModelLeasePtr one = f.host->get("one").value();
  const uint64_t n_returned = f.host->n_returned();
  EXPECT_EQ(f.host->try_get("two").value(), nullptr) << "the others are in use";
  EXPECT_EQ(f.host->n_returned(), n_returned);
  EXPECT_EQ(engine_of(f.host->get("one")), one->engine().get());
  one = nullptr;
  EXPECT_NE(f.host->n_returned(), n_returned);
  EXPECT_NE(engine_of(f.host->try_get("two")), nullptr);
  EXPECT_FALSE(f.host->list()[0].is_loaded);
}

// After the first load the size of the KV budget is known, so the model is not loaded again in vain.
TEST(ModelHostTest, ModelThatNeverFitsIsNotLoadedASecondTime) {
  HostFixture f({.memory_budget_bytes = kHostedKvBytes, .load_at_once = false});
  for (int i = 0; i < 3; ++i) {
    const Status status = f.host->try_get("one").status();
    EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(status.message().find(std::to_string(kHostedKvBytes + 10)), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(std::to_string(kHostedKvBytes) + " bytes"), std::string::npos);
  }
  EXPECT_EQ(f.n_loads, 1);
}

TEST(ModelHostTest, ReplacedFileIsLoadedAfterAllLeasesAreReturned) {
  HostFixture f;
  ModelLeasePtr old = f.host->get("one").value();
  const std::weak_ptr<Engine> watched = old->engine();
  f.dir.write("new", "0123456789 and more");
  ASSERT_EQ(std::rename(f.dir.file("new").c_str(), f.dir.file("one.gguf").c_str()), 0);
  EXPECT_EQ(f.host->get_loaded("one").value(), nullptr) << "the file must be checked";
  EXPECT_EQ(f.host->try_get("one").value(), nullptr) << "the old one is in use, and no longer leased";
  std::thread waits([&] { EXPECT_NE(engine_of(f.host->get("one")), nullptr); });
  old.reset();
  waits.join();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(f.n_loads, 2);
  EXPECT_EQ(f.host->list()[0].file_bytes, 19u);
  EXPECT_NE(f.host->get_loaded("one").value(), nullptr);
}

TEST(ModelHostTest, ReplacedFileOfEqualSizeAndTimeIsDetected) {
  HostFixture f({}, {"one.gguf"});
  const std::string path = f.dir.file("one.gguf");
  const auto time = std::filesystem::last_write_time(path);
  f.dir.write("one.gguf", "9876543210");
  std::filesystem::last_write_time(path, time);
  EXPECT_EQ(f.host->get_loaded("one").value(), nullptr) << "written in place";
  ASSERT_NE(f.host->get("one").value(), nullptr);
  EXPECT_EQ(f.n_loads, 2);

  const std::string directory = f.dir.file("two");
  std::filesystem::create_directories(directory);
  for (const char* name : {"two/config.json", "two/model.safetensors", "two/x"}) {
    std::filesystem::last_write_time(f.dir.write(name, "0123456789"), time);
  }
  const auto host =
      ModelHost::create({ModelSource(directory)}, [&](const std::string& at) { return f.load(at); }, f.clock, {});
  ASSERT_TRUE(host.ok()) << host.status().message();
  ASSERT_NE((*host)->get_loaded("two").value(), nullptr);
  ASSERT_EQ(std::rename((directory + "/x").c_str(), (directory + "/model.safetensors").c_str()), 0);
  std::filesystem::last_write_time(f.dir.write("two/y", "0123456789"), time);
  EXPECT_EQ((*host)->get_loaded("two").value(), nullptr) << "another file has the name of the weights";
}

TEST(ModelHostTest, LoadedModelSurvivesRemovalOfItsFile) {
  HostFixture f;
  ASSERT_EQ(std::remove(f.dir.file("one.gguf").c_str()), 0);
  EXPECT_NE(f.host->get_loaded("one").value(), nullptr);
  f.unload("one");
  EXPECT_EQ(f.host->get("one").status().code(), ErrorCode::kNotFound);
}

TEST(ModelHostTest, ConcurrentCallsLoadAModelOnce) {
  HostFixture f;
  std::vector<std::thread> callers;
  std::vector<ModelLeasePtr> got(8);
  for (ModelLeasePtr& lease : got) {
    callers.emplace_back([&] { lease = f.host->get("two").value(); });
  }
  for (std::thread& caller : callers) caller.join();
  for (const ModelLeasePtr& lease : got) EXPECT_EQ(lease->engine(), got[0]->engine());
  EXPECT_EQ(f.n_loads, 2);
}

TEST(ModelHostTest, LeaseMayOutliveTheHost) {
  HostFixture f;
  const ModelLeasePtr lease = f.host->get("one").value();
  f.host.reset();
  EXPECT_EQ(lease->engine()->max_seq_len(), ChatFixture().engine->max_seq_len());
}

}  // namespace
}  // namespace ibid::serve
