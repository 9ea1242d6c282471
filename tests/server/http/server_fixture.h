#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/http/server.h"
#include "tests/server/http/raw_client.h"

namespace ibid::http {

class ServerFixture : public testing::Test {
 protected:
  static ServerOptions quick_options() {
    ServerOptions options;
    options.port = 0;
    return options;
  }

  // Starts the server. "/echo" returns the body; "/hold" waits until the test responds on held(n).
  void start(ServerOptions options = quick_options()) {
    Router router;
    router.add(
        "GET", "/health",
        [](const ExchangePtr& exchange, const PathParts&) { exchange->respond({.body = "{\"status\":\"ok\"}"}); },
        Access::kEverybody);
    router.add("POST", "/echo", [](const ExchangePtr& exchange, const PathParts&) {
      exchange->respond({.content_type = "text/plain", .body = exchange->request().body});
    });
    router.add("POST", "/hold", [this](const ExchangePtr& exchange, const PathParts&) { hold(exchange); });
    router.add("GET", "/hold", [this](const ExchangePtr& exchange, const PathParts&) { hold(exchange); });
    router.add("GET", "/parts/{...}", [](const ExchangePtr& exchange, const PathParts& parts) {
      exchange->respond({.body = parts[0] + "?" + exchange->request().query});
    });
    router.add("GET", "/whose", [](const ExchangePtr& exchange, const PathParts&) {
      exchange->respond({.body = exchange->request().key_namespace});
    });
    router.add("GET", "/nothing", [](const ExchangePtr&, const PathParts&) {});
    router.add("GET", "/throws", [](const ExchangePtr&, const PathParts&) { throw std::bad_alloc(); });
    options.on_record = [this](const ExchangeRecord& record) {
      const std::lock_guard lock(mutex_);
      records_.push_back(record);
      changed_.notify_all();
    };
    auto error_body = [](int status, std::string_view message, std::string_view) {
      return "{\"status\":" + std::to_string(status) + ",\"message\":\"" + std::string(message) + "\"}";
    };
    Result<std::unique_ptr<Server>> server = Server::listen(std::move(options), std::move(router), error_body);
    ASSERT_TRUE(server.ok()) << server.status().message();
    server_ = *std::move(server);
  }

  void TearDown() override {
    held_.clear();
    server_.reset();
  }

  RawClient client() const { return RawClient(server_->port()); }

  std::string ask(std::string_view bytes) const {
    RawClient asking = client();
    asking.send(bytes);
    return asking.read_response();
  }

  ExchangePtr held(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return held_.size() > n; });
    return held_.size() > n ? held_[n] : nullptr;
  }
  void let_go_of_all() {
    std::vector<ExchangePtr> all;  // destroyed without the lock, because their records take it
    const std::lock_guard lock(mutex_);
    all.swap(held_);
  }

  std::vector<ExchangeRecord> records(size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return records_.size() >= n; });
    return records_;
  }

  static bool is_gone_within(const ExchangePtr& exchange, int limit_ms) {
    for (int i = 0; i < limit_ms && !exchange->gone().stop_requested(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return exchange->gone().stop_requested();
  }

  std::unique_ptr<Server> server_;

 private:
  void hold(const ExchangePtr& exchange) {
    const std::lock_guard lock(mutex_);
    held_.push_back(exchange);
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<ExchangePtr> held_;
  std::vector<ExchangeRecord> records_;
};

}  // namespace ibid::http
