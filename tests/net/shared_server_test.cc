#include "net/shared_server.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/support/resp_server.h"
#include "tests/support/temp_dir.h"

namespace ibid::net {
namespace {

constexpr char kOldKey[] = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n";
constexpr char kNewKey[] = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100\n";

class SharedServerTest : public testing::Test {
 protected:
  std::string key_file(const std::string& keys) {
    const std::string path = dir_.write("key" + std::to_string(++n_files_), keys);
    std::filesystem::permissions(path, std::filesystem::perms::owner_read);
    return path;
  }
  static std::vector<std::byte> bytes_of(std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    return {bytes.begin(), bytes.end()};
  }
  // The bytes that are stored for a text.
  static std::string stored(const SharedServer& server, const std::string& key, std::string_view text) {
    const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
    const std::span<const std::byte> pieces[] = {bytes.first(1), bytes.subspan(1)};
    std::vector<std::byte> sealed;
    std::string all;
    const auto parts = *server.to_store(key, pieces, sealed);
    for (const auto part : parts) all.append(reinterpret_cast<const char*>(part.data()), part.size());
    return all;
  }
  static Result<std::string> opened(const SharedServer& server, const std::string& key, std::string_view stored) {
    std::vector<std::byte> bytes = bytes_of(stored);
    const auto value = server.opened(key, bytes);
    if (!value.ok()) return value.status();
    return std::string(reinterpret_cast<const char*>(value->data()), value->size());
  }

  const TempDir dir_;
  int n_files_ = 0;
};

TEST_F(SharedServerTest, OneObjectServesAllStoresOfAProcess) {
  const std::string key = key_file(kNewKey);
  const auto one = *SharedServer::open("redis://127.0.0.1:1", "");
  EXPECT_EQ(one, *SharedServer::open("redis://127.0.0.1:1", ""));
  EXPECT_NE(one, *SharedServer::open("redis://127.0.0.1:2", ""));
  EXPECT_NE(one, *SharedServer::open("redis://127.0.0.1:1", key));
  EXPECT_EQ(SharedServer::open("redis://192.0.2.1", "").status().code(), ErrorCode::kInvalidArgument)
      << "another machine needs a key";
  EXPECT_TRUE(SharedServer::open("redis://192.0.2.1", key).ok());
  EXPECT_EQ(SharedServer::open("http://127.0.0.1", "").status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SharedServer::open("redis://127.0.0.1", dir_.file("none")).status().code(), ErrorCode::kNotFound);
}

TEST_F(SharedServerTest, WithoutAKeyNamesAndValuesArePlain) {
  const auto server = *SharedServer::open("redis://127.0.0.1:1", "");
  EXPECT_FALSE(server->has_key());
  EXPECT_EQ(server->n_keys(), 1u);
  EXPECT_EQ(server->overhead_bytes(), 0u);
  const std::string key = server->key("x", bytes_of("\x01\xab"));
  EXPECT_EQ(key, "ibid:x:01ab");
  EXPECT_EQ(stored(*server, key, "value"), "value");
  EXPECT_EQ(*opened(*server, key, "value"), "value");
}

TEST_F(SharedServerTest, WithAKeyNamesAreHiddenAndValuesSealed) {
  const auto server = *SharedServer::open("redis://127.0.0.1:1", key_file(std::string(kNewKey) + kOldKey));
  const auto old = *SharedServer::open("redis://127.0.0.1:1", key_file(kOldKey));
  EXPECT_EQ(server->n_keys(), 2u);
  const std::vector<std::byte> id = bytes_of("id");
  const std::string key = server->key("x", id);
  EXPECT_EQ(key.size(), 7u + 32u);
  EXPECT_NE(key, server->key("y", id).replace(5, 1, "x")) << "names of another kind are others";
  EXPECT_NE(key, server->key("x", id, 1));
  EXPECT_EQ(old->key("x", id), server->key("x", id, 1));
  const std::string value = stored(*server, key, "value");
  EXPECT_EQ(value.size(), 5 + server->overhead_bytes());
  EXPECT_EQ(*opened(*server, key, value), "value");
  EXPECT_EQ(opened(*server, server->key("y", id), value).status().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(opened(*old, key, value).status().code(), ErrorCode::kMismatch);
  EXPECT_EQ(opened(*server, key, "value").status().code(), ErrorCode::kTruncated);
  const std::string before = old->key("x", id);
  EXPECT_EQ(*opened(*server, before, stored(*old, before, "earlier")), "earlier");
}

TEST_F(SharedServerTest, CallReturnsAllAnswersAndReportsThem) {
  RespServer server;
  const auto shared = *SharedServer::open(server.url(), "");
  RespRequest request;
  request.command(3).word("SET").word("a").word("1");
  request.command(2).word("INCR").word("a");
  request.command(2).word("GET").word("a");
  std::vector<std::byte> room(10);
  const auto answers = shared->call(request, {}, room);
  ASSERT_TRUE(answers.ok());
  ASSERT_EQ(answers->size(), 3u);
  EXPECT_TRUE((*answers)[0].is("OK"));
  EXPECT_EQ((*answers)[1].integer, 2);
  EXPECT_EQ((*answers)[2].kind, RespValue::Kind::kInRoom);
  EXPECT_EQ(room[0], std::byte{'2'});

  const auto call = [&](const std::string& answer) {
    server.set_script([&](const RespServer::Words& words) -> std::optional<std::string> {
      if (words[0] == "PING") return std::nullopt;
      return answer + "\r\n";
    });
    return shared->call(resp_command({"GET", "a"}), {});
  };
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(status_of(*call("-OOM full")).code(), ErrorCode::kLimitExceeded);
    EXPECT_EQ(status_of(*call("-WRONGTYPE a list")).code(), ErrorCode::kBadType);
  }
  EXPECT_TRUE(shared->connections().breaker().allows_calls()) << "other calls may succeed";
  std::vector<std::string> reasons;
  shared->connections().set_on_change([&](const std::string& reason) { reasons.push_back(reason); });
  for (int i = 0; i < CircuitBreaker::kMaxFailures; ++i) {
    EXPECT_EQ(status_of(*call("*2\r\n+OK\r\n-LOADING the data")).code(), ErrorCode::kBusy);
  }
  EXPECT_FALSE(shared->connections().breaker().allows_calls());
  EXPECT_EQ(call("+OK").status().code(), ErrorCode::kBusy);
  shared->connections().set_on_change({});
  ASSERT_EQ(reasons.size(), 1u);
  EXPECT_NE(reasons[0].find("LOADING"), std::string::npos);
}

}  // namespace
}  // namespace ibid::net
