// Saved conversations of other versions: all messages and tokens of answers are loaded, and losses are reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/file_ops.h"
#include "model/model_fingerprint.h"
#include "runtime/session/session_file.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;

class KeptFiles : public testing::Test {
 protected:
  static KvPageIdentity of_numerics(uint32_t version) {
    return {FingerprintBuilder().add("model", "one").finish(version), digest_of_namespace("")};
  }
  Result<LoadedSession> load(const std::string& path, uint32_t version) {
    const KvPageIdentity identity = of_numerics(version);
    return read_session_file(system_file_ops(), path, pool_, &identity);
  }

  const KvLayout layout_ = KvLayout::make(1, 1, 4, KvDType::kF32);
  KvPagePool pool_{layout_, 10 * layout_.page_bytes()};
};

TEST_F(KeptFiles, SessionFileOfAnOlderFormatKeepsTextAndLosesRows) {
  for (const std::string name : {"with_rows.chat", "without_rows.chat"}) {
    SCOPED_TRACE(name);
    const Result<LoadedSession> loaded = load(golden_dir() + "/kept/" + name, kNumericsVersion);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const SavedSession& session = loaded->session;
    ASSERT_EQ(session.messages.size(), 5u);
    EXPECT_EQ(session.messages[0]["content"], "Be brief.");
    EXPECT_EQ(session.messages[3]["content"], "And now?");
    ASSERT_EQ(session.replies.size(), 2u);
    EXPECT_EQ(session.replies[0].ids.size() + session.replies[1].ids.size(), 22u);
    EXPECT_EQ(session.numerics_version, 0u) << "the older format has no version";
    EXPECT_EQ(session.load_warnings.n_replies, 0u);
    EXPECT_TRUE(session.load_warnings.fields.empty());
    EXPECT_FALSE(loaded->kv.has_value());
    EXPECT_EQ(session.load_warnings.rows.ok(), name == "without_rows.chat");
    if (session.load_warnings.rows.ok()) continue;
    EXPECT_EQ(session.load_warnings.rows.code(), ErrorCode::kUnsupportedVersion);
    EXPECT_THAT(session.load_warnings.to_string(),
                HasSubstr("keys and values (KV record: format version 2, this program reads version 4)"));
  }
}

TEST_F(KeptFiles, RowsOfAnotherNumericsVersionAreLostAndErrorNamesBothVersions) {
  const TempDir dir;
  KvCacheEntry entry(pool_);
  std::vector<KvPage> pages = *pool_.allocate(2);
  for (KvPage& page : pages) std::memset(page.data(), 0, layout_.page_bytes());
  ASSERT_TRUE(entry.adopt(std::move(pages), Tokens(100, 7)).ok());
  SavedSession session{.messages = {{{"role", "user"}, {"content", "x"}}}};
  const std::string path = dir.file("one.chat");
  ASSERT_TRUE(write_session_file(system_file_ops(), path, session, &entry, of_numerics(1)).ok());
  const Result<LoadedSession> same = load(path, 1), other = load(path, 2);
  ASSERT_TRUE(same.ok() && other.ok());
  ASSERT_TRUE(same->kv.has_value());
  EXPECT_EQ(same->kv->length(), 100u);
  EXPECT_FALSE(same->session.load_warnings.any());
  EXPECT_EQ(other->session.messages, session.messages);
  EXPECT_FALSE(other->kv.has_value());
  EXPECT_EQ(other->session.load_warnings.rows.code(), ErrorCode::kUnsupportedVersion);
  EXPECT_THAT(other->session.load_warnings.rows.message(),
              HasSubstr("computed by version 1 of the numerics, this program has version 2"));
  EXPECT_EQ(same->session.numerics_version, kNumericsVersion) << "of the program that wrote it";
}

TEST_F(KeptFiles, SessionFileOfALaterFormatIsRejectedAndErrorNamesBothVersions) {
  const TempDir dir;
  const std::string path = dir.file("later.chat");
  std::string bytes = *read_file(system_file_ops(), golden_dir() + "/kept/without_rows.chat", 1 << 20);
  bytes[8] = 2;
  ASSERT_TRUE(write_file_atomically(system_file_ops(), path, std::as_bytes(std::span(bytes))).ok());
  const Status status = read_saved_session(system_file_ops(), path).status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupportedVersion);
  EXPECT_THAT(status.message(), HasSubstr("format version 2, this program reads version 1"));
  EXPECT_EQ(*read_file(system_file_ops(), path, 1 << 20), bytes);
}

}  // namespace
}  // namespace ibid
