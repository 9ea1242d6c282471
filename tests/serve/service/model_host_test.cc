// Models by name: loaded when they are asked for, within a budget, and let go.
#include "apps/serve/service/model_host.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/serve/service/service_fixture.h"

namespace ibid::serve {
namespace {

constexpr size_t kHostedKvBytes = 1u << 20;

struct HostFixture {
  explicit HostFixture(ModelHostOptions options = {}, std::vector<std::string> names = {"one.gguf", "two.gguf"}) {
    std::vector<std::string> paths;
    for (const std::string& name : names) paths.push_back(dir.write(name, "0123456789"));
    auto created = ModelHost::create(paths, [this](const std::string& path) { return load(path); }, clock, options);
    EXPECT_TRUE(created.ok()) << created.status().message();
    host = *std::move(created);
  }

  Result<std::shared_ptr<Engine>> load(const std::string& path) {
    ++n_loads;
    if (path.find("bad") != path.npos) return {ErrorCode::kBadMagic, path + ": no model"};
    return ChatFixture(kChatMl, {}, kHostedKvBytes).engine;
  }

  TempDir dir;
  ManualClock clock;
  std::atomic<int> n_loads = 0;
  std::unique_ptr<ModelHost> host;
};

TEST(ModelHostTest, AModelIsLoadedWhenItIsFirstAskedFor) {
  HostFixture f;
  EXPECT_EQ(f.n_loads, 1) << "the first, at once";
  const std::shared_ptr<Engine> one = f.host->get("one").value();
  EXPECT_EQ(f.host->get("").value(), one) << "no name means the first";
  EXPECT_EQ(f.host->get_loaded("two").value(), nullptr);
  const std::shared_ptr<Engine> two = f.host->get("two").value();
  EXPECT_NE(one, two);
  EXPECT_EQ(f.host->get("two").value(), two);
  EXPECT_EQ(f.host->get_loaded("two").value(), two);
  EXPECT_EQ(f.n_loads, 2);
  EXPECT_EQ(f.host->list()[1].name, "two");
  EXPECT_TRUE(f.host->list()[1].is_loaded);
  EXPECT_EQ(f.host->list()[1].file_bytes, 10u);
}

TEST(ModelHostTest, WhatIsNotThereSaysWhatIs) {
  HostFixture f;
  const Status status = f.host->get("three").status();
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_NE(status.message().find("\"three\""), std::string::npos);
  EXPECT_NE(status.message().find("one, two"), std::string::npos);
  EXPECT_EQ(f.host->unload("three").code(), ErrorCode::kNotFound);
}

TEST(ModelHostTest, TwoModelsOfOneNameAreRefused) {
  ManualClock clock;
  const auto loader = [](const std::string&) -> Result<std::shared_ptr<Engine>> { return ChatFixture().engine; };
  EXPECT_EQ(ModelHost::create({"a/x.gguf", "b/x.gguf"}, loader, clock, {.load_at_once = false}).status().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(ModelHost::create({}, loader, clock, {}).status().code(), ErrorCode::kInvalidArgument);
}

TEST(ModelHostTest, AModelThatCannotBeLoadedCanBeTriedAgain) {
  HostFixture f({}, {"one.gguf", "bad.gguf"});
  EXPECT_EQ(f.host->get("bad").status().code(), ErrorCode::kBadMagic);
  EXPECT_EQ(f.host->get("bad").status().code(), ErrorCode::kBadMagic);
  EXPECT_EQ(f.n_loads, 3);
}

TEST(ModelHostTest, IdleModelsAreUnloadedAndUsedOnesStay) {
  HostFixture f({.keep_alive = std::chrono::milliseconds(1000)});
  const std::shared_ptr<Engine> used = f.host->get("one").value();
  ASSERT_TRUE(f.host->get("two").ok());
  f.clock.advance(999'000'000);
  f.host->unload_idle();
  EXPECT_TRUE(f.host->list()[1].is_loaded);
  f.clock.advance(1'000'000);
  f.host->unload_idle();
  EXPECT_TRUE(f.host->list()[0].is_loaded);
  EXPECT_FALSE(f.host->list()[1].is_loaded);
  EXPECT_EQ(f.host->get("one").value(), used);
  ASSERT_TRUE(f.host->get("two").ok());
  EXPECT_EQ(f.n_loads, 3);
}

TEST(ModelHostTest, TheBudgetUnloadsWhatWasAskedForLongestAgo) {
  HostFixture f({.memory_budget_bytes = 2 * kHostedKvBytes + 100}, {"one.gguf", "two.gguf", "three.gguf"});
  ASSERT_TRUE(f.host->get("two").ok());
  f.clock.advance(1);
  ASSERT_TRUE(f.host->get("one").ok());
  f.clock.advance(1);
  const std::shared_ptr<Engine> three = f.host->get("three").value();
  EXPECT_TRUE(f.host->list()[0].is_loaded);
  EXPECT_FALSE(f.host->list()[1].is_loaded);
  const std::shared_ptr<Engine> one = f.host->get("one").value();
  const Status status = f.host->get("two").status();
  EXPECT_EQ(status.code(), ErrorCode::kOutOfMemory) << "the others are in use";
  EXPECT_NE(status.message().find(std::to_string(2 * kHostedKvBytes + 100)), std::string::npos) << status.message();
  EXPECT_EQ(f.host->get("one").value(), one);
}

TEST(ModelHostTest, AFileThatWasReplacedIsLoadedAnewOnceNobodyUsesTheOldOne) {
  HostFixture f;
  std::shared_ptr<Engine> old = f.host->get("one").value();
  const std::weak_ptr<Engine> watched = old;
  f.dir.write("new", "0123456789 and more");
  ASSERT_EQ(std::rename(f.dir.file("new").c_str(), f.dir.file("one.gguf").c_str()), 0);
  EXPECT_EQ(f.host->get_loaded("one").value(), nullptr) << "it has to be looked at";
  EXPECT_EQ(f.host->get("one").value(), old) << "it is in use";
  old.reset();
  ASSERT_TRUE(f.host->get("one").ok());
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(f.n_loads, 2);
  EXPECT_EQ(f.host->list()[0].file_bytes, 19u);
  EXPECT_NE(f.host->get_loaded("one").value(), nullptr);
}

TEST(ModelHostTest, AFileThatIsGoneServesOn) {
  HostFixture f;
  ASSERT_EQ(std::remove(f.dir.file("one.gguf").c_str()), 0);
  EXPECT_NE(f.host->get_loaded("one").value(), nullptr);
  ASSERT_TRUE(f.host->unload("one").ok());
  EXPECT_EQ(f.host->get("one").status().code(), ErrorCode::kNotFound);
}

TEST(ModelHostTest, WhoeverHoldsPointersIsToldBeforeAModelGoes) {
  HostFixture f;
  std::shared_ptr<Engine> held = f.host->get("one").value();
  f.host->set_on_unload([&](const Engine& engine) {
    if (held.get() == &engine) held.reset();
  });
  ASSERT_TRUE(f.host->unload("one").ok());
  EXPECT_FALSE(f.host->list()[0].is_loaded);
  EXPECT_EQ(held, nullptr);
}

TEST(ModelHostTest, ASecondCallWaitsForTheFirst) {
  HostFixture f;
  std::vector<std::thread> callers;
  std::vector<std::shared_ptr<Engine>> got(8);
  for (std::shared_ptr<Engine>& engine : got) {
    callers.emplace_back([&] { engine = f.host->get("two").value(); });
  }
  for (std::thread& caller : callers) caller.join();
  for (const std::shared_ptr<Engine>& engine : got) EXPECT_EQ(engine, got[0]);
  EXPECT_EQ(f.n_loads, 2);
}

}  // namespace
}  // namespace ibid::serve
