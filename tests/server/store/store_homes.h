// StoreHome: one place where a ConversationStore has its entries. The laws of the store hold in each of them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "net/shared_server.h"
#include "server/store/conversation_store.h"
#include "tests/support/redis_server.h"
#include "tests/support/resp_server.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {

using StorePtr = std::unique_ptr<ConversationStore>;

enum class Home { kMemory, kFile, kFakeServer, kRedis };
inline const char* name_of(Home home) {
  constexpr const char* kNames[] = {"memory", "file", "fake_server", "redis"};
  return kNames[static_cast<size_t>(home)];
}
inline void PrintTo(Home home, std::ostream* out) { *out << name_of(home); }

class StoreHome {
 public:
  explicit StoreHome(Home home) : home_(home) {
    if (home == Home::kFakeServer) fake_.emplace();
    if (home == Home::kRedis && !redis_server_program().empty()) redis_.emplace();
  }
  // False if the real server is not installed, or did not start.
  bool is_there() const { return home_ != Home::kRedis || (redis_ && redis_->is_ready()); }
  // True if several programs may use the store at once, and it survives each of them.
  bool is_shared() const { return home_ != Home::kMemory; }
  bool is_server() const { return home_ == Home::kFakeServer || home_ == Home::kRedis; }
  RespServer& fake() { return *fake_; }
  RedisServer& redis() { return *redis_; }

  // Opens a store, as a program of its own would. keys: the content of the key file; nothing: no key file.
  StorePtr open(uint64_t budget_bytes = 1u << 20, std::vector<std::string>* remarks = nullptr,
                const std::optional<std::string>& keys = std::string(64, 'a')) {
    ConversationStore::Options options{.budget_bytes = budget_bytes};
    if (remarks != nullptr) options.remark = [remarks](const std::string& line) { remarks->push_back(line); };
    if (home_ == Home::kFile) options.directory = dir_.file("cache");
    if (fake_ || redis_) {
      using std::filesystem::perms;
      std::string key_file;  // one for each program, because a process opens a server with one key file only once
      if (keys) {
        key_file = dir_.write("key" + std::to_string(n_opened_++), *keys + "\n");
        std::filesystem::permissions(key_file, perms::owner_read | perms::owner_write);
      }
      options.server = net::SharedServer::open(fake_ ? fake_->url() : redis_->url(), key_file).value();
    }
    return ConversationStore::open(std::move(options)).value();
  }

 private:
  const Home home_;
  const TempDir dir_;
  size_t n_opened_ = 0;
  std::optional<RespServer> fake_;
  std::optional<RedisServer> redis_;
};

// A test for each home.
class InEachHome : public testing::TestWithParam<Home> {
 protected:
  void SetUp() override {
    if (!home_.is_there()) GTEST_SKIP() << "redis-server is not installed (Debian: redis-server)";
  }
  StoreHome home_{GetParam()};
};

inline Json item(const std::string& id, const std::string& text = "x") { return {{"id", id}, {"text", text}}; }
inline StoredResponse response(const std::string& id, Json items, const std::string& previous = "") {
  return {.id = id, .previous_id = previous, .items = std::move(items), .response = "{}"};
}
inline Json all_items(const StoredResponse& found) {
  Json items = found.in_front;
  for (const Json& one : found.items) items.push_back(one);
  return items;
}

}  // namespace ibid::serve
