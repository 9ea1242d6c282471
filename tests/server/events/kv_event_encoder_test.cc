#include "server/events/kv_event_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace ibid::serve {
namespace {

KvEventEncoder::Secret counting_secret() {
  KvEventEncoder::Secret secret{};
  for (size_t i = 0; i < secret.size(); ++i) secret[i] = static_cast<std::byte>(i);
  return secret;
}

std::string hex(std::string_view bytes) { return to_hex(std::as_bytes(std::span(bytes))); }

Json events_of(KvEventEncoder& encoder) {
  const std::string bytes = encoder.take(1.0);
  return Json::from_msgpack(bytes)[1];
}

KvChange stored(uint64_t serial, uint64_t before, Tokens tokens, std::string name_space = "", bool is_shared = false) {
  return {serial, before, std::move(name_space), is_shared, std::move(tokens)};
}

// The bytes were computed by another implementation of msgpack and SHA-256, from vLLM's form of events.
TEST(KvEventEncoderTest, BatchHasTheBytesOfVllm) {
  KvEventEncoder encoder(counting_secret());
  encoder.clear();
  encoder.add(stored(1, 0, {1, 2}));
  encoder.add(stored(2, 1, {3, 300}));
  encoder.add({.serial = 2});
  encoder.add({.serial = 1});
  EXPECT_EQ(encoder.n_blocks(), 4u);
  EXPECT_EQ(
      hex(encoder.take(1.5)),
      "93ca3fc000009381a474797065b0416c6c426c6f636b73436c656172656488a474797065ab426c6f636b53746f726564ac626c6f636b"
      "5f68617368657392cf0ecd2ec2e5c457dccf4497147ef0f7f046b1706172656e745f626c6f636b5f68617368c0a9746f6b656e5f6964"
      "7394010203cd012caa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da3475055a96c6f72615f6e616d65c083a474"
      "797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657392cf4497147ef0f7f046cf0ecd2ec2e5c457dca66d65646975"
      "6da347505500");
  EXPECT_EQ(encoder.n_blocks(), 0u);
  EXPECT_TRUE(encoder.is_empty());
}

TEST(KvEventEncoderTest, PrivateNamespaceHasADigestAndNoTokens) {
  KvEventEncoder encoder(counting_secret());
  encoder.add(stored(1, 0, {1, 2}, "name-alice"));
  EXPECT_EQ(
      hex(encoder.take(2.5)),
      "93ca402000009189a474797065ab426c6f636b53746f726564ac626c6f636b5f68617368657391cf2a1781f4ccb98628b1706172656e"
      "745f626c6f636b5f68617368c0a9746f6b656e5f69647390aa626c6f636b5f73697a6502a76c6f72615f6964c0a66d656469756da347"
      "5055a96c6f72615f6e616d65c0aa65787472615f6b6579739191d92031383633323931393062663739353864393634666634356361363"
      "5623662663500");
  KvEventEncoder open(counting_secret(), true);
  open.add(stored(1, 0, {1, 2}, "name-alice"));
  const Json event = events_of(open)[0];
  EXPECT_EQ(event["token_ids"], Json::array({1, 2}));
  EXPECT_EQ(event["extra_keys"].size(), 1u) << "blocks with tokens still differ from those of other namespaces";
}

TEST(KvEventEncoderTest, BlocksOfAChainAreOneEvent) {
  KvEventEncoder encoder(counting_secret());
  encoder.add(stored(1, 0, {1, 2}));
  encoder.add(stored(2, 1, {3, 4}));
  encoder.add(stored(3, 1, {5, 6}));  // another continuation of the first
  encoder.add(stored(4, 3, {7, 8}));
  encoder.add(stored(5, 0, {1, 2}, "bob"));
  encoder.add(stored(6, 5, {3, 4}, "bob"));
  const Json events = events_of(encoder);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0]["block_hashes"].size(), 2u);
  EXPECT_EQ(events[1]["parent_block_hash"], events[0]["block_hashes"][0]);
  EXPECT_EQ(events[1]["token_ids"], Json::array({5, 6, 7, 8}));
  EXPECT_EQ(events[2]["extra_keys"].size(), 2u);
  EXPECT_FALSE(events[0].contains("extra_keys"));
  EXPECT_NE(events[2]["block_hashes"][0], events[0]["block_hashes"][0]) << "the same tokens in another namespace";
}

TEST(KvEventEncoderTest, HashesDependOnSecretNamespaceAndAllTokens) {
  const auto last_hash = [](KvEventEncoder::Secret secret, const std::vector<KvChange>& changes) {
    KvEventEncoder encoder(secret);
    for (const KvChange& change : changes) encoder.add(change);
    return events_of(encoder).back()["block_hashes"].back().get<uint64_t>();
  };
  KvEventEncoder::Secret other{};
  const KvEventEncoder::Secret secret = counting_secret();
  const uint64_t hash = last_hash(secret, {stored(1, 0, {1, 2}), stored(2, 1, {3, 4})});
  EXPECT_EQ(hash >> 63, 0u);
  EXPECT_EQ(last_hash(secret, {stored(8, 0, {1, 2}), stored(9, 8, {3, 4})}), hash) << "not on the serial";
  EXPECT_NE(last_hash(other, {stored(1, 0, {1, 2}), stored(2, 1, {3, 4})}), hash);
  EXPECT_NE(last_hash(secret, {stored(1, 0, {1, 9}), stored(2, 1, {3, 4})}), hash);
  EXPECT_NE(last_hash(secret, {stored(1, 0, {3, 4})}), hash);
  EXPECT_NE(last_hash(secret, {stored(1, 0, {1, 2}, "", true), stored(2, 1, {3, 4}, "", true)}), hash);
}

TEST(KvEventEncoderTest, UnknownPagesAreLeftOut) {
  KvEventEncoder encoder(counting_secret());
  encoder.add({.serial = 7});
  encoder.add(stored(2, 1, {3, 4}));
  EXPECT_TRUE(encoder.is_empty());
  encoder.add(stored(1, 0, {1, 2}));
  encoder.add(stored(1, 0, {1, 2}));
  EXPECT_EQ(encoder.n_blocks(), 1u) << "the second report of a page";
  encoder.clear();
  encoder.add({.serial = 1});
  const Json events = events_of(encoder);
  EXPECT_EQ(events.back()["type"], "AllBlocksCleared");
}

}  // namespace
}  // namespace ibid::serve
