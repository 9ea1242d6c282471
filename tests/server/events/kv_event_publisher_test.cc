#include "server/events/kv_event_publisher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/cache/tiny_kv.h"
#include "tests/server/events/zmq_client.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {
namespace {

using testing::HasSubstr;

// The blocks of a server as a router predicts them from the batches.
struct Router {
  void apply(const Json& events) {
    for (const Json& event : events) {
      if (event["type"] == "AllBlocksCleared") blocks.clear();
      if (event["type"] == "BlockRemoved") {
        for (const Json& hash : event["block_hashes"]) EXPECT_EQ(blocks.erase(hash.get<uint64_t>()), 1u);
      }
      if (event["type"] != "BlockStored") continue;
      const Json& parent = event["parent_block_hash"];
      EXPECT_TRUE(parent.is_null() || blocks.contains(parent.get<uint64_t>()));
      for (const Json& hash : event["block_hashes"]) EXPECT_TRUE(blocks.insert(hash.get<uint64_t>()).second);
    }
  }
  std::set<uint64_t> blocks;
};

class KvEventPublisherTest : public testing::Test {
 protected:
  KvEventPublisherTest() { open(); }

  void open() {
    KvEventOptions options{.endpoint = "ipc://" + dir_.file("events"),
                           .replay_endpoint = "ipc://" + dir_.file("replay"),
                           .topic = "kv@a@b"};
    Result<std::unique_ptr<KvEventPublisher>> opened = KvEventPublisher::open(options, system_clock());
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    publisher_ = *std::move(opened);
  }
  void insert(uint64_t seed, size_t n_tokens, const char* name_space = "") {
    KvCacheEntry entry(pool_);
    ASSERT_TRUE(feed(entry, random_tokens(seed, n_tokens)).ok());
    ASSERT_TRUE(store_->insert(name_space, entry).ok());
  }
  // Reads batches until the router knows n blocks. Their numbers must be consecutive.
  void follow(const ZmqClient& subscriber, Router& router, size_t n_blocks) {
    do {
      const ZmqClient::Batch batch = subscriber.next();
      ASSERT_GE(batch.number, 0) << "no batch in time; " << router.blocks.size() << " blocks";
      if (last_ >= 0) {
        EXPECT_EQ(batch.number, last_ + 1);
      } else {
        first_ = batch.number;
      }
      last_ = batch.number;
      router.apply(batch.events);
    } while (router.blocks.size() != n_blocks);
  }
  // Asks for the batches from this number on. Returns all but the end.
  std::vector<ZmqClient::Batch> repeated(uint64_t first) {
    const ZmqClient client(ZMQ_DEALER, publisher_->replay_endpoint());
    client.send({"", number(first)});
    std::vector<ZmqClient::Batch> all;
    for (;;) {
      const std::vector<std::string> parts = client.receive();
      EXPECT_EQ(parts.size(), 4u) << "no end";
      if (parts.size() != 4) return all;
      if (parts[2] == std::string(8, '\xff')) return all;
      all.push_back(ZmqClient::batch_of(parts[1], parts[2], parts[3]));
    }
  }
  static std::string number(uint64_t value) {
    std::string bytes;
    for (int shift = 56; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  }

  TempDir dir_;
  const KvLayout layout_ = tiny_layout(KvDType::kInt8);
  KvPagePool pool_{layout_, 600 * layout_.page_bytes()};
  std::unique_ptr<KvEventPublisher> publisher_;
  std::unique_ptr<LruKvCacheStore> store_ = std::make_unique<LruKvCacheStore>(pool_);
  int64_t first_ = -1, last_ = -1;  // numbers of batches that follow() has read
};

TEST_F(KvEventPublisherTest, SubscriberFirstGetsAClearAndThenFollowsTheStore) {
  publisher_->watch(*store_);
  const ZmqClient subscriber(ZMQ_SUB, publisher_->endpoint());
  const ZmqClient::Batch first = subscriber.next();
  EXPECT_EQ(first.topic, "kv@a@b");
  ASSERT_FALSE(first.events.empty());
  EXPECT_EQ(first.events[0]["type"], "AllBlocksCleared");
  last_ = first.number;
  Router router;
  insert(1, 200);
  follow(subscriber, router, 3);
  insert(2, 64);
  follow(subscriber, router, 4);
  store_->evict(3);
  follow(subscriber, router, 2);
  store_->clear("");
  follow(subscriber, router, 0);
}

TEST_F(KvEventPublisherTest, LateSubscriberGetsASnapshotWithAllBlocks) {
  publisher_->watch(*store_);
  insert(1, 64 * 300);
  insert(2, 130, "name-alice");
  const ZmqClient subscriber(ZMQ_SUB, publisher_->endpoint());
  Router router;
  follow(subscriber, router, 302);
  EXPECT_GT(publisher_->stats().n_batches, 2u) << "a large snapshot has several batches";
}

TEST_F(KvEventPublisherTest, ManySubscribersShareASnapshot) {
  publisher_->watch(*store_);
  insert(1, 640);
  std::vector<std::unique_ptr<ZmqClient>> subscribers;
  for (int i = 0; i < 20; ++i) subscribers.push_back(std::make_unique<ZmqClient>(ZMQ_SUB, publisher_->endpoint()));
  for (const auto& subscriber : subscribers) {
    last_ = -1;
    Router router;
    follow(*subscriber, router, 10);
  }
  EXPECT_LE(publisher_->stats().n_snapshots, 4u);
}

TEST_F(KvEventPublisherTest, BatchesAreRepeatedFromANumberOn) {
  publisher_->watch(*store_);
  const ZmqClient subscriber(ZMQ_SUB, publisher_->endpoint());
  Router live;
  for (int i = 0; i < 5; ++i) {
    insert(static_cast<uint64_t>(i), 64);
    follow(subscriber, live, static_cast<size_t>(i) + 1);
  }
  Router all;
  int64_t expected = first_;
  for (const ZmqClient::Batch& batch : repeated(static_cast<uint64_t>(first_))) {
    EXPECT_EQ(batch.topic, "kv@a@b");
    EXPECT_EQ(batch.number, expected++);
    all.apply(batch.events);
  }
  EXPECT_EQ(all.blocks, live.blocks);
  const auto last = repeated(static_cast<uint64_t>(last_));
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(last[0].number, last_);
  EXPECT_TRUE(repeated(static_cast<uint64_t>(last_) + 1).empty()) << "nothing was missed";
}

TEST_F(KvEventPublisherTest, UnknownNumberIsAnsweredWithASnapshot) {
  publisher_->watch(*store_);
  insert(1, 200);
  for (const uint64_t first : {~uint64_t{0}, uint64_t{0}, uint64_t{1} << 60}) {
    Router router;
    const auto batches = repeated(first);
    ASSERT_FALSE(batches.empty());
    EXPECT_EQ(batches[0].events[0]["type"], "AllBlocksCleared");
    for (const ZmqClient::Batch& batch : batches) router.apply(batch.events);
    EXPECT_EQ(router.blocks.size(), 3u);
  }
  EXPECT_LE(publisher_->stats().n_snapshots, 2u) << "later requests get the snapshot of the first";
  EXPECT_EQ(publisher_->stats().n_replays, 3u);
}

TEST_F(KvEventPublisherTest, InvalidRequestsAreIgnored) {
  publisher_->watch(*store_);
  insert(1, 200);
  const std::vector<std::vector<std::string>> bad = {{""},
                                                     {"", ""},
                                                     {"", "1234567"},
                                                     {"", "123456789"},
                                                     {"", number(0), ""},
                                                     {"x", number(0), "y", "z"},
                                                     {"", std::string(1000, 'a')},
                                                     {std::string(200, '\0')}};
  for (const std::vector<std::string>& parts : bad) {
    const ZmqClient client(ZMQ_DEALER, publisher_->replay_endpoint());
    client.send(parts);
    EXPECT_TRUE(client.receive(50).empty()) << parts.size();
  }
  EXPECT_FALSE(repeated(0).empty());
}

TEST_F(KvEventPublisherTest, EndOfAStoreAndOfThePublisherClearAllBlocks) {
  publisher_->watch(*store_);
  insert(1, 200);
  const ZmqClient subscriber(ZMQ_SUB, publisher_->endpoint());
  Router router;
  follow(subscriber, router, 3);
  store_.reset();
  follow(subscriber, router, 0);
  store_ = std::make_unique<LruKvCacheStore>(pool_);
  publisher_->watch(*store_);
  insert(2, 64);
  follow(subscriber, router, 1);
  publisher_.reset();
  follow(subscriber, router, 0);
  insert(3, 64);  // the store outlives the publisher
}

// The second process binds the same endpoints, and the router reconnects by itself.
TEST_F(KvEventPublisherTest, NothingOfAnEarlierProcessIsBelieved) {
  publisher_->watch(*store_);
  insert(1, 200);
  const ZmqClient subscriber(ZMQ_SUB, publisher_->endpoint());
  Router router;
  follow(subscriber, router, 3);
  const std::set<uint64_t> old = router.blocks;
  const int64_t last = last_;
  publisher_.reset();
  open();
  publisher_->watch(*store_);
  while (router.blocks.size() != 3 || router.blocks == old) {
    const ZmqClient::Batch batch = subscriber.next();
    ASSERT_GE(batch.number, 0);
    EXPECT_GT(batch.number, last) << "a router ignores numbers that it has";
    router.apply(batch.events);
  }
  for (const uint64_t hash : router.blocks) EXPECT_FALSE(old.contains(hash)) << "hashes of another secret";
}

TEST_F(KvEventPublisherTest, SubscriberThatDoesNotReadDelaysNothing) {
  publisher_->watch(*store_);
  const ZmqClient idle(ZMQ_SUB, publisher_->endpoint());
  const ZmqClient reader(ZMQ_SUB, publisher_->endpoint());
  Router router;
  for (int i = 0; i < 2000; ++i) {
    insert(static_cast<uint64_t>(i), 64);
    store_->clear("");
  }
  while (!reader.receive(300).empty()) {
  }
  insert(1, 64 * 20);
  publisher_->watch(*store_);  // the reader has missed batches: a list follows
  while (router.blocks.size() != 20) {
    const ZmqClient::Batch batch = reader.next();
    ASSERT_GE(batch.number, 0);
    if (batch.events[0]["type"] == "AllBlocksCleared") router.blocks.clear();
    for (const Json& event : batch.events) {
      if (event["type"] != "BlockStored") continue;
      for (const Json& hash : event["block_hashes"]) router.blocks.insert(hash.get<uint64_t>());
    }
    if (batch.events.back()["type"] == "BlockRemoved") router.blocks.clear();
  }
}

TEST_F(KvEventPublisherTest, OnlyThisUserCanConnectToThePath) {
  struct stat found {};
  ASSERT_EQ(stat(dir_.file("events").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  publisher_.reset();
  EXPECT_FALSE(std::filesystem::exists(dir_.file("events")));
}

TEST(KvEventEndpointTest, OnlyThisMachineCanConnectUnlessAllowed) {
  for (const char* endpoint : {"ipc:///run/user/1000/events", "tcp://127.0.0.1:5557", "tcp://127.9.9.9:1",
                               "tcp://[::1]:65535", "tcp://[::ffff:127.0.0.1]:1", "tcp://127.0.0.1:*"}) {
    EXPECT_TRUE(check_event_endpoint(endpoint, false).ok()) << endpoint;
  }
  for (const char* endpoint :
       {"tcp://*:5557", "tcp://0.0.0.0:5557", "tcp://[::]:5557", "tcp://10.0.0.7:5557", "tcp://127.dead:5557"}) {
    EXPECT_THAT(check_event_endpoint(endpoint, false).message(), HasSubstr("--kv-events-open")) << endpoint;
    EXPECT_TRUE(check_event_endpoint(endpoint, true).ok()) << endpoint;
  }
  for (const char* endpoint :
       {"", "5557", "ipc://", "ipc://relative", "ipc://@abstract", "inproc://x", "pgm://eth0;1:5", "tcp://", "tcp://:1",
        "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:0", "tcp://127.0.0.1:65536", "tcp://127.0.0.1:5x",
        "tcp://localhost:5557", "tcp://eth0:5557", "tcp://127.0.0.1;eth0:1", "tcp://127.0.0.1:5\n"}) {
    EXPECT_EQ(check_event_endpoint(endpoint, true).code(), ErrorCode::kInvalidArgument) << endpoint;
  }
  EXPECT_FALSE(check_event_endpoint("ipc:///" + std::string(200, 'a'), false).ok());
}

TEST(KvEventEndpointTest, FileThatIsNoSocketIsNotRemoved) {
  TempDir dir;
  const std::string path = dir.write("notes", "text");
  const auto refused = KvEventPublisher::open({.endpoint = "ipc://" + path}, system_clock());
  EXPECT_THAT(refused.status().message(), HasSubstr("is not a socket"));
  EXPECT_EQ(std::filesystem::file_size(path), 4u);
}

TEST_F(KvEventPublisherTest, PathInUseIsAnError) {
  const auto second = KvEventPublisher::open({.endpoint = "ipc://" + dir_.file("events")}, system_clock());
  EXPECT_EQ(second.status().code(), ErrorCode::kIo);
  EXPECT_THAT(second.status().message(), HasSubstr("in use by another program"));
  EXPECT_TRUE(std::filesystem::exists(dir_.file("events")));
}

TEST(KvEventEndpointTest, PortInUseIsAnError) {
  const auto first = KvEventPublisher::open({.endpoint = "tcp://127.0.0.1:*"}, system_clock());
  ASSERT_TRUE(first.ok());
  EXPECT_THAT((*first)->endpoint(), testing::Not(HasSubstr("*")));
  const auto second = KvEventPublisher::open({.endpoint = (*first)->endpoint()}, system_clock());
  EXPECT_EQ(second.status().code(), ErrorCode::kIo);
  EXPECT_THAT(second.status().message(), HasSubstr((*first)->endpoint()));
}

}  // namespace
}  // namespace ibid::serve
