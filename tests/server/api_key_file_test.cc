#include "server/http/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ApiKeyFileTest, ReadsKeysWithAndWithoutAName) {
  const auto keys = parse_api_keys("# of the team\n\n sk-0123456789 \r\nteam=abcdefghij\nteam=klmnopqrst\n", "keys");
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  ASSERT_EQ(keys->size(), 3u);
  EXPECT_EQ((*keys)[0].key, "sk-0123456789");
  EXPECT_EQ((*keys)[1].key, "abcdefghij");
  EXPECT_EQ((*keys)[1].cache_namespace, (*keys)[2].cache_namespace);
  EXPECT_NE((*keys)[0].cache_namespace, (*keys)[1].cache_namespace);
}

TEST(ApiKeyFileTest, OnlyAMarkedKeyNamesNamespaces) {
  const auto keys = parse_api_keys("router=abcdefghij namespaces\nsk-0123456789\t namespaces \r\nklmnopqrst\n", "keys");
  ASSERT_TRUE(keys.ok()) << keys.status().message();
  ASSERT_EQ(keys->size(), 3u);
  EXPECT_TRUE((*keys)[0].names_namespaces);
  EXPECT_EQ((*keys)[0].key, "abcdefghij");
  EXPECT_TRUE((*keys)[1].names_namespaces);
  EXPECT_EQ((*keys)[1].key, "sk-0123456789");
  EXPECT_FALSE((*keys)[2].names_namespaces);
  for (const char* bad : {"abcdefghij namespace", "abcdefghij Namespaces", "abcdefghij namespaces more",
                          "abcdefghij secret-9", "namespaces namespaces-"}) {
    const auto refused = parse_api_keys(bad, "keys.txt");
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_THAT(refused.status().message(), HasSubstr("keys.txt, line 1: "));
    EXPECT_THAT(refused.status().message(), Not(HasSubstr("abcdefghij")));
    EXPECT_THAT(refused.status().message(), Not(HasSubstr("secret")));
  }
}

TEST(ApiKeyFileTest, UnnamedKeyHasAStableNamespaceWithoutTheKeyText) {
  const auto keys = parse_api_keys("key-of-me-alone\n", "keys");
  const auto again = parse_api_keys("key-of-me-alone", "other");
  EXPECT_EQ((*keys)[0].cache_namespace, (*again)[0].cache_namespace);
  EXPECT_THAT((*keys)[0].cache_namespace, Not(HasSubstr("key-of-me")));
}

TEST(ApiKeyFileTest, KeyMayContainEqualsSign) {
  const auto keys = parse_api_keys("c2VjcmV0a2V5==\n", "keys");
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ((*keys)[0].key, "c2VjcmV0a2V5==");
}

TEST(ApiKeyFileTest, ErrorsNameTheLineAndNotTheKey) {
  for (const char* text : {"good-key-1\nshort7\n", "good-key-1\nwith blank secret\n",
                           "good-key-1\nsecret\xff"
                           "more\n"}) {
    const auto keys = parse_api_keys(text, "keys.txt");
    ASSERT_FALSE(keys.ok());
    EXPECT_THAT(keys.status().message(), HasSubstr("keys.txt, line 2: "));
    EXPECT_THAT(keys.status().message(), Not(HasSubstr("secret")));
    EXPECT_THAT(keys.status().message(), Not(HasSubstr("short7")));
  }
  EXPECT_EQ(parse_api_keys("same-key-1\nname=same-key-1\n", "keys").status().code(), ErrorCode::kDuplicate);
}

TEST(ApiKeyFileTest, EnvironmentVariableAddsAKey) {
  TempDir dir;
  const ScopedVariable variable("IBID_API_KEY", "key-of-environment");
  EXPECT_EQ(read_api_keys("")->size(), 1u);
  EXPECT_EQ(read_api_keys(dir.write("keys", "key-of-the-file\n"))->size(), 2u);
  EXPECT_FALSE(read_api_keys(dir.write("none", "# nothing\n")).ok());
  EXPECT_FALSE(read_api_keys(dir.file("missing")).ok());
}

}  // namespace
}  // namespace ibid::serve
