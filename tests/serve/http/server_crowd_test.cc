// Crowds: many clients that are slow, silent or half there, beside some that want to be served.
// IBID_CROWD says how many there are of the former; with 2000 it takes a while, and prints what it
// cost the latter.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/serve/http/server_fixture.h"

namespace ibid::http {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

class ServerCrowdTest : public ServerFixture {
 protected:
  static size_t crowd_size() {
    const char* given = std::getenv("IBID_CROWD");
    return given == nullptr ? 200 : std::stoul(given);
  }

  void SetUp() override {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < 2 * crowd_size() + 200) GTEST_SKIP() << "not enough open files are allowed";
  }

  // Good clients, each with some requests on one connection; their times in milliseconds, sorted.
  std::vector<double> serve_good_clients(const std::string& request) {
    constexpr int kClients = 4, kRequests = 100;
    std::vector<double> times;
    std::mutex mutex;
    std::vector<std::thread> threads;
    for (int i = 0; i < kClients; ++i) {
      threads.emplace_back([&] {
        RawClient one(server_->port());
        for (int k = 0; k < kRequests; ++k) {
          const auto begin = SteadyClock::now();
          one.send(request);
          const int status = status_of(one.read_response());
          const double ms = std::chrono::duration<double, std::milli>(SteadyClock::now() - begin).count();
          const std::lock_guard lock(mutex);
          EXPECT_EQ(status, 200);
          times.push_back(ms);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    std::sort(times.begin(), times.end());
    return times;
  }

  void report(const char* what, const std::vector<double>& times) const {
    std::printf("%s: p50 %.2f ms, p99 %.2f ms, with %zu others\n", what, times[times.size() / 2],
                times[times.size() * 99 / 100], crowd_size());
  }
};

// Cases 124 and 125, by the hundred: more connections than the server takes, in every state of being unfinished.
TEST_F(ServerCrowdTest, SlowAndSilentClientsCostGoodOnesNothing) {
  ServerOptions options = quick_options();
  options.max_connections = std::max<size_t>(crowd_size() / 2, 50);
  start(options);
  report("alone", serve_good_clients(post_text("/echo", "hello")));
  std::vector<RawClient> crowd;
  const std::string beginnings[] = {"", "G", "GET /health HTTP/1.1\r\nHost: localh",
                                    "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nhalf",
                                    "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"};
  for (size_t i = 0; i < crowd_size(); ++i) {
    crowd.push_back(client());
    crowd.back().send(beginnings[i % std::size(beginnings)]);
  }
  std::atomic<bool> over = false;
  std::thread drip([&] {
    while (!over) {
      for (RawClient& one : crowd) one.send("x");
      std::this_thread::sleep_for(milliseconds(100));
    }
  });
  report("in the crowd", serve_good_clients(post_text("/echo", "hello")));
  over = true;
  drip.join();
  EXPECT_LE(server_->stats().n_open, options.max_connections + 8);
}

// Case 130, by the hundred: streams that nobody reads, and others that are read to their last byte.
TEST_F(ServerCrowdTest, StreamsThatNobodyReadsLeaveOthersWhole) {
  ServerOptions options = quick_options();
  options.max_queued_bytes = 20'000;
  options.max_connections = 2 * crowd_size() + 100;
  start(options);
  const size_t n_stuck = crowd_size() / 4, n_good = 8;
  std::vector<RawClient> stuck, good;
  for (size_t i = 0; i < n_stuck + n_good; ++i) {
    (i < n_stuck ? stuck : good).push_back(client());
    (i < n_stuck ? stuck : good).back().send(get_text("/hold"));
    const ExchangePtr exchange = held(i);
    ASSERT_NE(exchange, nullptr);
    exchange->begin_stream(200, "text/plain");
  }
  std::vector<std::thread> readers;
  std::atomic<size_t> n_whole = 0;
  for (RawClient& one : good) {
    readers.emplace_back([&one, &n_whole] {
      one.read_to("\r\n\r\n");  // the head
      n_whole += one.read_to("0\r\n\r\n").ends_with("last\r\n0\r\n\r\n") ? 1 : 0;
    });
  }
  // Good clients get a little, the others as much as they lose their place for.
  const std::string piece(10'000, 'd');
  for (size_t i = 0; i < n_stuck; ++i) {
    while (held(i)->send(piece)) {
    }
    for (size_t k = 0; k < n_good; ++k) EXPECT_TRUE(held(n_stuck + k)->send("token"));
  }
  for (size_t k = 0; k < n_good; ++k) {
    held(n_stuck + k)->send("last");
    held(n_stuck + k)->end_stream();
  }
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(n_whole, n_good);
  let_go_of_all();
  records(n_stuck + n_good);
  EXPECT_EQ(server_->stats().n_slow_clients, n_stuck);
}

// 256 clients of streams at once: every byte arrives, in its order, at the one that it is for.
TEST_F(ServerCrowdTest, NoByteOfManyStreamsIsLostOrMixedUp) {
  ServerOptions options = quick_options();
  start(options);
  constexpr size_t kClients = 256, kTokens = 50;
  std::vector<RawClient> clients;
  std::vector<ExchangePtr> exchanges;
  for (size_t i = 0; i < kClients; ++i) {
    clients.push_back(client());
    clients.back().send(get_text("/hold"));
    exchanges.push_back(held(i));
    ASSERT_NE(exchanges.back(), nullptr);
    exchanges.back()->begin_stream(200, "text/plain");
  }
  for (size_t k = 0; k < kTokens; ++k) {
    for (size_t i = 0; i < kClients; ++i) {
      ASSERT_TRUE(exchanges[i]->send("[" + std::to_string(i) + ":" + std::to_string(k) + "]"));
    }
  }
  for (const ExchangePtr& exchange : exchanges) exchange->end_stream();
  for (size_t i = 0; i < kClients; ++i) {
    clients[i].read_to("\r\n\r\n");
    std::string chunked = clients[i].read_to("0\r\n\r\n"), text;
    while (!chunked.starts_with("0\r\n")) {  // chunks to text
      const size_t size = std::stoul(chunked, nullptr, 16);
      const size_t begin = chunked.find("\r\n") + 2;
      text += chunked.substr(begin, size);
      chunked.erase(0, begin + size + 2);
    }
    std::string wanted;
    for (size_t k = 0; k < kTokens; ++k) wanted += "[" + std::to_string(i) + ":" + std::to_string(k) + "]";
    ASSERT_EQ(text, wanted);
  }
}

// Connections that come and go in every way while others are served; nothing is left behind.
TEST_F(ServerCrowdTest, ClientsThatComeAndGoLeaveNothingBehind) {
  start();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      for (int k = 0; k < 100; ++k) {
        RawClient one(server_->port());
        one.send(k % 3 == 0 ? get_text("/health") : post_text("/echo", "x").substr(0, static_cast<size_t>(k)));
        if ((k + i) % 2 == 0) one.reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < 500 && server_->stats().n_open > 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(server_->stats().n_open, 0u);
  EXPECT_EQ(server_->stats().n_exchanges, 0u);
}

}  // namespace
}  // namespace ibid::http
